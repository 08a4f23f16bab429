import numpy as np

from moca.data.differences import Reference, compare, tags
from tests.data.test_fingerprint import contents, sample


def reference_of(x, y, tx, ty):
    found = contents(x, y, tx, ty)
    order, test_order = np.argsort(y, kind="stable"), np.argsort(ty, kind="stable")
    both = np.concatenate([tags(found.train_digests)[order], tags(found.test_digests)[test_order]])
    counts = tuple(np.bincount(y).tolist()), tuple(np.bincount(ty).tolist())
    return Reference(found.fingerprint(), counts, both)


def test_a_right_copy_is_right():
    data = sample()
    result = compare(contents(*data), reference_of(*data))
    assert result.same and str(result) == "complete and right" and result.agreed == 18


def test_each_kind_of_difference_is_named_and_counted():
    x, y, tx, ty = sample()
    right = reference_of(x, y, tx, ty)
    cx, cy, ctx, cty = x.copy(), y.copy(), tx.copy(), ty.copy()
    cx[0, 0, 0, 0] ^= 255  # wrong, and the right one is missing
    cy[4] = (cy[4] + 1) % 3  # relabelled
    cx[8] = cx[5]  # 5 duplicated (both of class 2), 8 missing
    ctx[0], cx[3] = x[3], tx[0]  # swapped between the splits, class 0 both
    result = compare(contents(cx, cy, ctx, cty), right)
    assert not result.same
    assert [(p.split, p.index) for p in result.wrong] == [("train", 0)]
    assert [(p.split, p.index, p.label, p.right) for p in result.relabelled] == [("train", 4, 2, 1)]
    assert [(p.split, p.index) for p in result.duplicated] == [("train", 8)]
    assert sorted((p.split, p.index) for p in result.moved) == [("test", 0), ("train", 3)]
    assert result.missing == {("train", 0): 1, ("train", 2): 1}
    assert str(result) == "1 wrong, 1 duplicated, 1 relabelled, 2 moved, 2 missing"


def test_another_data_set_agrees_nowhere():
    result = compare(contents(*sample(seed=7)), reference_of(*sample()))
    assert result.agreed == 0 and "no image agrees" in str(result)

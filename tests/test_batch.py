"""A batch gives what it was given and says what it lacks."""

import pytest
import torch

from moca.batch import Batch, Fields, paired


def test_fields_are_what_was_given():
    x, y = torch.rand(3, 2), torch.arange(3)
    batch = Batch(x=x, y=y)
    assert batch.x is x and batch.y is y
    assert batch.old is None


@pytest.mark.parametrize("name", ["image", "x", "y", "features", "moved", "logits"])
def test_a_missing_field_is_named(name):
    with pytest.raises(AttributeError, match=rf"needs a batch with '{name}': Batch\({name}=\.\.\.\)"):
        getattr(Batch(), name)


def test_a_learner_that_replays_logits_is_told_how_to_have_them():
    with pytest.raises(AttributeError, match=r"; a learner that says keeps = \('logits',\) has them"):
        _ = Batch(y=torch.arange(3)).logits


def test_an_unknown_field_is_refused_and_the_known_ones_named():
    with pytest.raises(ValueError, match="no field 'label'; it has image, x, y, features, moved, logits, slot, old"):
        Batch(label=torch.arange(3))


def test_an_unknown_field_cannot_be_read_either():
    with pytest.raises(AttributeError, match="no field 'labels'; it has image, x, y, features, moved, logits"):
        _ = Batch(y=torch.arange(3)).labels


def test_replace_adds_and_replaces_in_a_copy():
    x, y, other = torch.rand(3, 2), torch.arange(3), torch.zeros(3)
    batch = Batch(x=x, y=y)
    more = batch.replace(y=other, features=x)
    assert more.x is x and more.y is other and more.features is x
    assert batch.y is y and not hasattr(batch, "features")


def test_an_unknown_field_is_no_replacement():
    with pytest.raises(ValueError, match="a batch has no field 'label'"):
        Batch(y=torch.arange(3)).replace(label=torch.arange(3))


def test_pairing_wraps_around():
    rows = torch.arange(3) * 10
    assert paired(rows, 3) is rows
    assert paired(rows, 7).tolist() == [0, 10, 20, 0, 10, 20, 0]
    assert paired(rows, 2).tolist() == [0, 10]


def test_nothing_cannot_be_paired():
    with pytest.raises(ValueError, match="the new batch has no samples to go by"):
        paired(torch.zeros(0, 4), 3)


def test_all_fields_are_known_to_type_checkers_and_the_other_way_round():
    assert Fields.__annotations__.keys() == Batch.__annotations__.keys()


def test_it_is_printed_by_types_and_shapes():
    batch = Batch(features=torch.zeros(4, 32, dtype=torch.float64), y=torch.arange(4), old=None)
    assert repr(batch) == "Batch(features=float64 of (4, 32), y=int64 of (4,), old=None)"
    assert repr(Batch()) == "Batch()"

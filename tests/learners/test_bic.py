"""BiC: what is held out, what is distilled, and the correction against an exhaustive search."""

import math

import pytest
import torch
from torch import nn

from moca import Batch, LinearHead, Model
from moca.learners.bic import BiC, Training, fitted
from moca.memory import Memory, Reservoir
from moca.random import Random
from tests.learners.conftest import CLASSES, task


def objective(logits, y, fresh, a, b):
    """Cross-entropy, the mean over the classes of their means, one sample at a time."""
    of_class = {}
    for row, label in zip(logits.tolist(), y.tolist(), strict=True):
        z = [a * v + b if f else v for v, f in zip(row, fresh.tolist(), strict=True)]
        top = max(z)
        of_class.setdefault(label, []).append(top + math.log(sum(math.exp(v - top) for v in z)) - z[label])
    means = [sum(each) / len(each) for each in of_class.values()]
    return sum(means) / len(means) + 0.0005 * ((a - 1) ** 2 + b**2)


def biased(seed, count=40, classes=5, shift=3.0):
    """Logits that favour the last two classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (count,), generator=generator)
    logits = torch.randn(count, classes, generator=generator) + 2 * nn.functional.one_hot(y, classes)
    fresh = torch.arange(classes) >= classes - 2
    return logits + shift * fresh, y, fresh


def test_of_vectors_as_of_images_about_one_in_so_many_is_held_out(attached):
    learner = attached(BiC(hold=4), (0, 1))
    vectors = torch.nn.functional.normalize(torch.randn(4000, 16, 1, 1, generator=torch.Generator().manual_seed(0)))
    held = learner.held_out(vectors)
    assert held.double().mean() == pytest.approx(0.25, abs=0.03)
    assert learner.held_out(vectors[:7]).equal(held[:7]), "whatever they come with"
    image = torch.tensor([[[[3, 4], [250, 3]]]], dtype=torch.uint8)
    assert learner.held_out(torch.cat([image, image + 1])).tolist() == [True, True]
    assert learner.held_out(image.clone().fill_(1)[..., :1]).tolist() == [False]


class TestFit:
    @pytest.mark.parametrize("seed", range(3))
    def test_no_other_pair_fits_better(self, seed):
        logits, y, fresh = biased(seed)
        a, b = fitted(logits, y, torch.ones(5, dtype=torch.bool), fresh)
        best = objective(logits, y, fresh, a, b)
        for radius in (1e-3, 0.05, 1.0):
            for angle in range(0, 360, 30):
                da, db = radius * math.cos(math.radians(angle)), radius * math.sin(math.radians(angle))
                assert objective(logits, y, fresh, a + da, b + db) > best

    def test_a_shift_of_new_classes_is_found_and_taken_back(self):
        """Many samples of which only the shift is wrong."""
        logits, y, fresh = biased(0, count=4000, shift=1.0)
        unbiased = fitted(logits - 1.0 * fresh, y, torch.ones(5, dtype=torch.bool), fresh)
        a, b = fitted(logits, y, torch.ones(5, dtype=torch.bool), fresh)
        assert a == pytest.approx(unbiased[0], abs=0.05)
        assert b == pytest.approx(unbiased[1] - a, abs=0.1)

    def test_classes_count_the_same_however_many_samples_they_have(self):
        logits, y, fresh = biased(1)
        seen = torch.ones(5, dtype=torch.bool)
        often = torch.cat([torch.arange(40)] + [(y == 0).nonzero().flatten()] * 4)
        assert fitted(logits[often], y[often], seen, fresh) == pytest.approx(fitted(logits, y, seen, fresh), abs=1e-6)

    def test_samples_told_apart_without_error_leave_it_finite(self):
        logits = torch.tensor([[9.0, -9.0], [-9.0, 9.0]])
        a, b = fitted(logits, torch.tensor([0, 1]), torch.ones(2, dtype=torch.bool), torch.tensor([False, True]))
        assert abs(a) < 10 and abs(b) < 10

    def test_classes_that_are_yet_to_come_have_no_part(self):
        """Classes 0, 2 and 5 of six came; 5 is new."""
        seen = torch.tensor([True, False, True, False, False, True])
        y = torch.tensor([0, 2, 5, 5, 0])
        logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
        fresh = torch.arange(6) == 5
        packed = fitted(logits, torch.tensor([0, 1, 2, 2, 0]), torch.ones(3, dtype=torch.bool), fresh[seen])
        assert fitted(logits, y, seen, fresh) == pytest.approx(packed, abs=1e-9)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(nn.Linear(3, 3), LinearHead(3, CLASSES))


@pytest.fixture
def learner(model):
    def make(hold=2, perturbation=None):
        memory = Memory(30, Reservoir(30, Random(0, "store")), Training(Random(0, "draw"), None))
        one = BiC(hold=hold).attach(
            model, CLASSES, perturbation=perturbation, memory=memory, view=lambda images: images.float() / 50 - 2
        )
        memory.drawing.learner = one
        return one

    return make


def samples(labels, seed=0):
    image = torch.randint(0, 256, (len(labels), 3), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)
    return Batch(image=image, y=torch.tensor(labels))


def batch(one, labels, seed=0, old=None):
    given = samples(labels, seed)
    x = one.view(given.image)
    h = one.model.encode(x)
    fields = {} if old is None else {"old": torch.tensor(old)}
    return given.replace(x=x, features=h, logits=one.model.classify(h), **fields)


def in_training(one, given):
    return [i for i, image in enumerate(given.image.tolist()) if sum(image) % one.hold]


def test_held_out_samples_reach_no_loss(learner, model):
    one = learner()
    one.begin_task(task(0, 1))
    one.begin_task(task(2, 3))
    new, replay = batch(one, [2, 3, 3, 2, 2]), batch(one, [0, 1, 2, 0, 1], 1, old=[True, True, False, True, True])
    for given in (new, replay):
        assert 0 < len(in_training(one, given)) < 5
    features = [b.features.detach().requires_grad_() for b in (new, replay)]
    new = new.replace(features=features[0], logits=model.classify(features[0]))
    with torch.no_grad():
        one.teacher.head.weight.mul_(-1)
    losses = one.losses(new, replay.replace(features=features[1]))
    for term in losses.values():
        for given, slope in zip((new, replay), torch.autograd.grad(term, features, retain_graph=True,
                                allow_unused=True), strict=True):  # fmt: skip
            if slope is not None:
                assert slope.any(1).nonzero().flatten().tolist() == in_training(one, given)


def test_held_out_samples_are_not_drawn_while_there_are_others(learner):
    one = learner(hold=3)
    one.begin_task(task(0, 1))
    given = samples([0, 1] * 15)
    one.memory.add(image=given.image, y=given.y)
    free = len(in_training(one, given))
    assert 0 < free < 30
    for _ in range(20):
        assert not one.held_out(one.memory.draw(free)["image"]).any()


def test_three_terms_with_what_was_corrected_before(learner, model):
    one = learner()
    one.begin_task(task(0, 1, 4))
    one.begin_task(task(2))
    one.scale[1], one.shift[1] = 0.5, -0.3
    new, replay = batch(one, [2, 2, 2, 2]), batch(one, [0, 1, 2, 4], 1, old=[True, True, False, True])
    with torch.no_grad():
        one.teacher.head.weight.mul_(-1)

    def corrected(net, given):
        z = net.classify(net.encode(given.x)).double()
        z[:, 1] = 0.5 * z[:, 1] - 0.3
        return z

    losses, share, kept = one.losses(new, replay), 3 / 4, 0.0
    for name, given in (("new", new), ("replay", replay)):
        rows, z = in_training(one, given), corrected(model, given)
        assert rows
        surprise = -z.log_softmax(1)[rows, given.y[rows]].mean().item()
        assert losses[name].item() == pytest.approx((1 - share) * surprise, rel=1e-5)
        p, q = ((net[rows][:, [0, 1, 4]] / 2).softmax(1) for net in (corrected(one.teacher, given), z))
        kept += (p * (p / q).log()).sum(1).mean().item()
    assert losses["distil"].item() == pytest.approx(share * kept, rel=1e-4)


def test_the_correction_is_that_of_the_held_out_samples(learner, model):
    one = learner()
    one.begin_task(task(0, 1))
    first = samples([0, 1] * 8)
    one.memory.add(image=first.image, y=first.y)
    one.end_task(first)
    assert one.scale.tolist() == [1] * 6 and one.shift.tolist() == [0] * 6, "the first task has nothing to correct"
    one.begin_task(task(3, 4))
    second = samples([3, 4] * 6, seed=1)
    one.memory.add(image=second.image[:4], y=second.y[:4])
    one.end_task(second)
    held = [(i, y) for s in (first, second) for i, y in zip(s.image, s.y, strict=True) if sum(i.tolist()) % 2 == 0]
    images, y = torch.stack([i for i, _ in held]), torch.stack([y for _, y in held])
    seen, fresh = torch.tensor([1, 1, 0, 1, 1, 0]).bool(), torch.tensor([0, 0, 0, 1, 1, 0]).bool()
    a, b = fitted(model(one.view(images))[:, seen], y, seen, fresh)
    assert (a, b) != (1, 0)
    assert one.scale.tolist() == pytest.approx([1, 1, 1, a, a, 1], rel=1e-4)
    assert one.shift.tolist() == pytest.approx([0, 0, 0, b, b, 0], rel=1e-4, abs=1e-6)
    x = torch.randn(4, 3)
    torch.testing.assert_close(one.predict(x), one.scale * model(x) + one.shift)


def test_with_nothing_held_out_nothing_is_corrected(learner):
    one = learner(hold=10**6)
    for classes in ((0, 1), (2,)):
        one.begin_task(task(*classes))
        given = samples([c for c in classes for _ in range(4)])
        one.memory.add(image=given.image, y=given.y)
        one.end_task(given)
    assert one.scale.tolist() == [1] * 6


def test_only_labels_are_perturbed(learner, recorder):
    moved, plain = [], []
    for perturbation, losses in ((recorder, moved), (None, plain)):
        one = learner(perturbation=perturbation)
        one.begin_task(task(0, 1))
        one.begin_task(task(2, 3))
        with torch.no_grad():
            one.teacher.head.weight.mul_(-1)
        losses.append(one.losses(batch(one, [2, 3, 3]), batch(one, [0, 1, 2, 1], 1, old=[True, True, False, True])))
    assert moved[0]["replay"].item() != pytest.approx(plain[0]["replay"].item(), rel=1e-3)
    for name in ("new", "distil"):
        assert moved[0][name].item() == pytest.approx(plain[0][name].item(), rel=1e-6)


def test_classes_that_all_come_again_are_still_learnt_by_their_labels(attached):
    """As where tasks are domains: then no class is new."""
    assert attached(BiC(), (0, 1), (0, 1)).share == 0.5

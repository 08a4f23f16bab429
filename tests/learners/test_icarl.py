"""iCaRL: herding, targets, means and predictions against plain loops."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from moca import Batch, LinearHead, Model
from moca.inference_batches import MOST
from moca.learners.icarl import ICaRL, alternating, herding
from moca.memory import Memory, Past, Reservoir, Uniform
from moca.random import Random

CLASSES, FEATURES = 6, 3


def exhaustive(features, count):
    """Of all samples not chosen yet, the one that brings the mean of the chosen nearest to the mean of all."""
    rows = features.tolist()
    d = len(rows[0])
    mean = [sum(row[j] for row in rows) / len(rows) for j in range(d)]
    chosen = []
    while len(chosen) < min(count, len(rows)):
        best, nearest = None, math.inf
        for i in range(len(rows)):
            if i in chosen:
                continue
            tried = [*chosen, i]
            center = [sum(rows[k][j] for k in tried) / len(tried) for j in range(d)]
            far = math.dist(center, mean)
            if far < nearest:
                best, nearest = i, far
        chosen.append(best)
    return chosen


class TestHerding:
    @given(seed=st.integers(0, 10**6), rows=st.integers(1, 12), count=st.integers(0, 15), d=st.integers(1, 6))
    def test_equals_an_exhaustive_greedy_search(self, seed, rows, count, d):
        features = Random(seed, "p").normal(rows, d).double()
        assert herding(features, count).tolist() == exhaustive(features, count)

    def test_fewer_are_the_first_of_more(self):
        """So that old classes can give up their last ones."""
        features = Random(0, "p").normal(30, 8)
        assert herding(features, 5).equal(herding(features, 20)[:5])

    def test_equal_samples_are_different_rows(self):
        assert sorted(herding(torch.ones(4, 2), 4).tolist()) == [0, 1, 2, 3]

    def test_the_mean_of_the_chosen_is_nearer_than_by_chance(self):
        features = Random(0, "p").normal(200, 8)
        far = [(features[rows].mean(0) - features.mean(0)).norm() for rows in (herding(features, 10), range(10))]
        assert far[0] < 0.3 * far[1]


def test_rows_of_two_alternate_in_parts_of_their_numbers():
    one, two, four = torch.tensor([1]), torch.tensor([2, 3]), torch.tensor([4, 5, 6, 7])
    assert alternating(one, two).tolist() == [2, 1, 3]
    assert alternating(two, four).tolist() == [4, 2, 5, 6, 3, 7]
    assert alternating(one[:0], two).tolist() == alternating(two, one[:0]).tolist() == [2, 3]


def task(*classes, samples=8):
    return SimpleNamespace(classes=classes, train=torch.arange(samples))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(nn.Linear(FEATURES, FEATURES), LinearHead(FEATURES, CLASSES))


@pytest.fixture
def make(model):
    """A learner with a memory, in no task yet."""

    def make(size=8, **options):
        memory = Memory(size, None, Uniform(Random(0, "draw")))
        view = lambda images: images.float() / 64 - 2  # noqa: E731
        return ICaRL(**options).attach(model, classes=CLASSES, memory=memory, view=view)

    return make


def batch(model, labels, seed=0):
    x = torch.randn(len(labels), FEATURES, generator=torch.Generator().manual_seed(seed))
    h = model.encode(x)
    return Batch(x=x, y=torch.tensor(labels), features=h, logits=model.classify(h))


def images(labels, seed=0):
    """Raw samples of a task."""
    generator = torch.Generator().manual_seed(seed)
    return Batch(
        image=torch.randint(0, 256, (len(labels), FEATURES), generator=generator).to(torch.uint8),
        y=torch.tensor(labels),
    )


def bce(logits, targets, seen):
    """Binary cross-entropy, one logit at a time, over the classes seen."""
    terms = []
    for row, wanted in zip(logits.tolist(), targets, strict=True):
        for c in seen:
            p = 1 / (1 + math.exp(-row[c]))
            terms.append(-wanted[c] * math.log(p) - (1 - wanted[c]) * math.log(1 - p))
    return sum(terms) / len(terms)


class TestLoss:
    def test_the_first_task_tells_its_classes_apart(self, make, model):
        icarl = make()
        icarl.begin_task(task(0, 2))
        new = batch(model, [0, 2, 2])
        losses = icarl.losses(new)
        targets = [[float(c == y) for c in range(CLASSES)] for y in (0, 2, 2)]
        assert list(losses) == ["new"]
        assert losses["new"].item() == pytest.approx(bce(new.logits, targets, [0, 2]), rel=1e-5)

    def test_old_classes_keep_the_outputs_of_the_network_before(self, make, model):
        icarl = make()
        icarl.begin_task(task(0, 1))
        icarl.end_task(images([0, 0, 1, 1]))
        icarl.begin_task(task(2, 3, samples=12))
        before = {name: value.clone() for name, value in model.state_dict().items()}
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.3)
        new, replay = batch(model, [2, 3, 3]), batch(model, [0, 1, 2, 0], seed=1)
        losses = icarl.losses(new, replay)

        teacher = Model(nn.Linear(FEATURES, FEATURES), LinearHead(FEATURES, CLASSES))
        teacher.load_state_dict(before)

        def expected(given):
            targets = []
            for x, y in zip(given.x, given.y.tolist(), strict=True):
                outputs = [1 / (1 + math.exp(-z)) for z in teacher(x.unsqueeze(0))[0].tolist()]
                targets.append([outputs[c] if c < 2 else float(c == y) for c in range(CLASSES)])
            return bce(model.classify(given.features), targets, [0, 1, 2, 3])

        share = 12 / (12 + 4)
        assert losses["new"].item() == pytest.approx(share * expected(new), rel=1e-5)
        assert losses["replay"].item() == pytest.approx((1 - share) * expected(replay), rel=1e-5)

    def test_the_two_terms_are_the_mean_over_the_union(self, make, model):
        """With batches as large as the data: the loss of new data and exemplars taken together."""
        icarl = make()
        icarl.begin_task(task(0, 1))
        icarl.end_task(images([0, 1, 0, 1]))
        icarl.begin_task(task(2, 3, samples=12))
        new, replay = batch(model, [2, 3] * 6), batch(model, [0, 1, 0, 1], seed=1)
        union = Batch(x=torch.cat([new.x, replay.x]), y=torch.cat([new.y, replay.y]))
        logits = model.classify(torch.cat([new.features, replay.features]))
        together = sum(icarl.losses(new, replay).values())
        assert together.item() == pytest.approx(icarl._bce(union, logits).item(), rel=1e-5)

    def test_classes_to_come_get_no_gradient(self, make, model):
        icarl = make()
        icarl.begin_task(task(0, 1))
        icarl.losses(batch(model, [0, 1]))["new"].backward()
        assert (model.head.weight.grad.abs().sum(1) > 0).tolist() == [True, True, False, False, False, False]

    def test_no_gradient_reaches_the_teacher(self, make, model):
        icarl = make()
        icarl.begin_task(task(0, 1))
        icarl.end_task(images([0, 1]))
        icarl.begin_task(task(2))
        sum(icarl.losses(batch(model, [2, 2]), batch(model, [0, 1], 1)).values()).backward()
        assert all(p.grad is None and not p.requires_grad for p in icarl.teacher.parameters())
        assert all(p.grad is not None for p in model.parameters())


class TestTeacher:
    def test_it_is_the_network_at_the_beginning_of_the_task(self, make, model):
        icarl = make()
        for number in range(2):
            with torch.no_grad():
                for p in model.parameters():
                    p.add_(0.1 + number)
            icarl.begin_task(task(2 * number, 2 * number + 1))
            begun = {name: value.clone() for name, value in model.state_dict().items()}
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(2)
            assert all(torch.equal(value, begun[name]) for name, value in icarl.teacher.state_dict().items())

    def test_it_judges_and_does_not_train(self):
        torch.manual_seed(0)
        model = Model(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), LinearHead(3, CLASSES))
        icarl = ICaRL().attach(model, classes=CLASSES, memory=Memory(8, None, Uniform(Random(0, "draw"))))
        icarl.begin_task(task(0, 1))
        icarl.begin_task(task(2, 3))
        model.train()
        before = {name: value.clone() for name, value in icarl.teacher.state_dict().items()}
        icarl.losses(batch(model, [2, 3, 2]))
        assert not any(module.training for module in icarl.teacher.modules())
        assert all(torch.equal(value, before[name]) for name, value in icarl.teacher.state_dict().items())


def unit(row):
    length = math.sqrt(sum(v * v for v in row))
    return [v / length for v in row]


def features(icarl, raw, with_unit):
    """Of raw images, one at a time."""
    made = [icarl.model.encode(icarl.view(image.unsqueeze(0)))[0].tolist() for image in raw]
    return [unit(row) for row in made] if with_unit else made


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("with_unit", [True, False])
class TestExemplars:
    def learnt(self, make, with_unit, size=9):
        """After two tasks: the samples of each and the learner."""
        icarl = make(size, unit=with_unit)
        first, second = images([0, 1, 0, 1, 0, 1, 0, 0, 1]), images([4, 2, 2, 4, 2, 4, 4], seed=1)
        icarl.begin_task(task(0, 1))
        icarl.end_task(first)
        kept = {name: value.clone() for name, value in icarl.memory.all().items()}
        icarl.begin_task(task(2, 4))
        icarl.end_task(second)
        return icarl, first, kept, second

    def test_as_many_of_each_class_as_there_is_room_for(self, make, with_unit):
        icarl, _, kept, _ = self.learnt(make, with_unit)
        assert kept["y"].tolist() == [0] * 4 + [1] * 4, "9 // 2 of each"
        assert icarl.memory.all()["y"].tolist() == [0] * 2 + [1] * 2 + [2] * 2 + [4] * 2, "9 // 4 of each"
        assert len(icarl.memory) == 8

    def test_no_more_than_a_class_has(self, make, with_unit):
        icarl = make(100, unit=with_unit)
        icarl.begin_task(task(0, 1))
        icarl.end_task(images([0, 1, 0]))
        assert icarl.memory.all()["y"].tolist() == [0, 0, 1]

    def test_new_ones_are_chosen_by_herding(self, make, with_unit):
        icarl, first, kept, second = self.learnt(make, with_unit)
        for samples, classes, stored, room in ((first, (0, 1), kept, 4), (second, (2, 4), icarl.memory.all(), 2)):
            for c in classes:
                raw = samples.image[samples.y == c]
                chosen = exhaustive(torch.tensor(features(icarl, raw, with_unit)).double(), room)
                assert stored["image"][stored["y"] == c].equal(raw[chosen])

    def test_old_ones_give_up_their_last(self, make, with_unit):
        icarl, _, kept, _ = self.learnt(make, with_unit)
        now = icarl.memory.all()
        for c in (0, 1):
            assert now["image"][now["y"] == c].equal(kept["image"][kept["y"] == c][:2])

    def test_means_are_those_of_the_exemplars(self, make, with_unit):
        icarl, _, _, _ = self.learnt(make, with_unit)
        stored = icarl.memory.all()
        for c in range(CLASSES):
            raw = stored["image"][stored["y"] == c]
            expected = [0.0] * FEATURES
            if len(raw):
                expected = mean(features(icarl, raw, with_unit))
                expected = unit(expected) if with_unit else expected
            assert icarl.means[c].tolist() == pytest.approx(expected, abs=1e-5)

    def test_means_follow_the_network(self, make, with_unit, model):
        """Old classes' means are taken anew with the features of now."""
        icarl, _, _, _ = self.learnt(make, with_unit)
        before = icarl.means.clone()
        icarl.begin_task(task(5))
        with torch.no_grad():
            model.encoder.weight.mul_(-1)
        icarl.end_task(images([5, 5], seed=2))
        assert all(not torch.allclose(icarl.means[c], before[c], atol=1e-3) for c in (0, 1, 2, 4))

    def test_the_prediction_is_the_nearest_mean(self, make, with_unit):
        icarl, _, _, _ = self.learnt(make, with_unit)
        x = torch.randn(7, FEATURES, generator=torch.Generator().manual_seed(5))
        scores = icarl.predict(x)
        assert scores.shape == (7, CLASSES)
        for i in range(7):
            h = icarl.model.encode(x[i : i + 1])[0].tolist()
            h = unit(h) if with_unit else h
            far = {c: math.dist(h, icarl.means[c].tolist()) for c in (0, 1, 2, 4)}
            assert scores[i].argmax().item() == min(far, key=far.get)
            assert scores[i, list(far)].tolist() == pytest.approx([-v for v in far.values()], abs=1e-4)
            assert scores[i, [3, 5]].tolist() == [-math.inf] * 2, "no class that never came"


def test_the_whole_of_a_large_class_is_looked_at(make, monkeypatch):
    """Features are computed some images at a time."""
    monkeypatch.setitem(MOST, "cpu", 4)
    icarl, seen = make(6), []
    whole = icarl.view
    icarl.view = lambda raw: seen.append(len(raw)) or whole(raw)
    icarl.begin_task(task(0))
    icarl.end_task(images([0] * 11))
    assert seen[:3] == [4, 4, 3]
    assert len(icarl.memory) == 6


def test_it_fills_its_memory_itself_and_replays_from_it():
    assert ICaRL().store is None
    assert ICaRL.draws == 1
    assert ICaRL().draw is Uniform


class TestOnline:
    def learner(self, model, size=12):
        one = ICaRL(form="online")
        memory = Memory(size, one.store(size, Random(0, "store")), one.draw(Random(0, "draw"), one))
        return one.attach(model, classes=CLASSES, memory=memory, view=lambda images: images.float() / 64 - 2)

    def summed(self, logits, targets):
        total = 0.0
        for row, wanted in zip(logits.tolist(), targets, strict=True):
            for z, t in zip(row, wanted, strict=True):
                p = 1 / (1 + math.exp(-z))
                total -= t * math.log(p) + (1 - t) * math.log(1 - p)
        return total

    def test_new_samples_are_told_apart_from_all_classes_and_old_ones_only_distilled(self, model):
        one = self.learner(model)
        one.begin_task(task(0, 1))
        new, replay = batch(model, [2, 3, 3]), batch(model, [0, 1, 2, 0], seed=1)
        replay.old = torch.tensor([True, True, False, True])
        assert list(one.losses(new, replay)) == ["new"], "nothing is distilled in the first task"
        one.begin_task(task(2, 3))
        outputs = one.teacher(replay.x).sigmoid().tolist()
        with torch.no_grad():
            model.head.weight.add_(0.5)
        new = batch(model, [2, 3, 3])
        losses = one.losses(new, replay)
        targets = [[float(c == y) for c in range(CLASSES)] for y in (2, 3, 3)]
        assert losses["new"].item() == pytest.approx(self.summed(new.logits, targets) / 3, rel=1e-5)
        rows = [0, 1, 3]
        wanted = self.summed(model.classify(replay.features)[rows], [outputs[i] for i in rows]) / 3
        assert losses["replay"].item() == pytest.approx(wanted, rel=1e-5)
        replay.y = torch.tensor([5, 5, 5, 5])
        assert one.losses(new, replay)["replay"].item() == pytest.approx(wanted, rel=1e-5), "labels do not matter"

    def test_where_nothing_old_was_drawn_nothing_is_distilled(self, model):
        one = self.learner(model)
        one.begin_task(task(0, 1))
        one.begin_task(task(2, 3))
        replay = batch(model, [2, 3])
        replay.old = torch.tensor([False, False])
        assert one.losses(batch(model, [2]), replay)["replay"].item() == 0

    def test_means_are_those_of_the_reservoir_and_it_stays_as_it_is(self, model):
        one = self.learner(model)
        one.begin_task(task(0, 1, 2))
        drawn = images([0, 1, 0, 1, 1])
        one.memory.add(image=drawn.image, y=drawn.y)
        one.end_task(images([0, 0, 1, 2], seed=7))
        assert one.memory.all()["image"].equal(drawn.image)
        for c in (0, 1):
            expected = unit(mean(features(one, drawn.image[drawn.y == c], True)))
            assert one.means[c].tolist() == pytest.approx(expected, abs=1e-5)
        assert one.predict(torch.randn(2, FEATURES)).isfinite().all(0).nonzero().flatten().tolist() == [0, 1]

    def test_its_memory_is_a_reservoir_of_which_old_samples_are_replayed(self):
        assert (ICaRL(form="online").store, ICaRL(form="online").draw) == (Reservoir, Past)


class TestGrow:
    def test_more_classes(self, make, model):
        icarl = make()
        icarl.begin_task(task(0, 1))
        icarl.end_task(images([0, 1, 1, 0]))
        means = icarl.means.clone()
        model.grow(9)
        icarl.grow(9)
        assert icarl.means.shape == (9, FEATURES)
        assert icarl.means[:CLASSES].equal(means) and not icarl.means[CLASSES:].any()
        assert len(icarl.seen) == len(icarl.current) == 9
        assert not any(p.requires_grad for p in icarl.teacher.parameters())
        icarl.begin_task(task(7, 8))
        assert all(torch.equal(v, model.state_dict()[name]) for name, v in icarl.teacher.state_dict().items())
        losses = icarl.losses(batch(model, [7, 8]), batch(model, [0, 1], 1))
        assert all(torch.isfinite(loss) for loss in losses.values())
        icarl.end_task(images([7, 8, 7], seed=3))
        assert icarl.predict(torch.randn(2, FEATURES)).isfinite().all(0).nonzero().flatten().tolist() == [0, 1, 7, 8]

    def test_a_state_of_more_classes_is_loaded(self, make, model):
        icarl = make()
        icarl.begin_task(task(0, 1))
        icarl.end_task(images([0, 1]))
        state = icarl.state_dict()
        model.grow(9)
        icarl.grow(9)
        wide = icarl.state_dict()
        icarl.load_state_dict(wide)
        assert len(icarl.means) == 9
        assert len(state["means"]) == CLASSES


def test_resumes_exactly(make, model):
    icarl = make()
    icarl.begin_task(task(0, 1))
    icarl.end_task(images([0, 1, 1, 0]))
    icarl.begin_task(task(2, 3))
    state, memory = icarl.state_dict(), icarl.memory.state_dict()
    other = make()
    other.load_state_dict(state)
    other.memory.load_state_dict(memory)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2)
    new, replay = batch(model, [2, 3]), batch(model, [0, 1], 1)
    for name, loss in icarl.losses(new, replay).items():
        assert torch.equal(other.losses(new, replay)[name], loss)
    x = torch.randn(3, FEATURES)
    assert torch.equal(other.predict(x), icarl.predict(x))
    for each in (icarl, other):
        each.end_task(images([2, 3, 3, 2], seed=4))
    assert torch.equal(other.means, icarl.means)
    assert other.memory.all()["image"].equal(icarl.memory.all()["image"])

"""X-DER: a softmax for each time, implanted logits, a balanced memory."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from moca import Batch, MocaError
from moca.learners.xder import XDER, implanted
from moca.memory import Memory, Uniform
from moca.random import Random
from tests.learners.conftest import task


def memory(size=12):
    return Memory(size, None, Uniform(Random(0, "draw")))


@pytest.fixture
def learner(attached):
    """At work in the second of three tasks."""

    def make(held=None, **options):
        one = attached(XDER(**options), (0, 1), memory=held)
        if held is not None:
            labels = torch.tensor([0, 1] * 3)
            logits = torch.tensor([[5.0, 1, 9, 9, 9, 9], [1.0, 5, 9, 9, 9, 9]] * 3)
            held.rewrite(image=torch.zeros(6, 3), y=labels, logits=logits)
        one.begin_task(task(2, 3))
        return one

    return make


def replayed(make_batch, labels, slots, held=None, seed=1):
    batch = make_batch(labels, seed=seed, stored=True, old=[True] * len(labels))
    batch = batch.replace(slot=torch.tensor(slots))
    return batch if held is None else batch.replace(logits=held.fields["logits"][batch.slot])


class TestLosses:
    def test_a_softmax_for_each_time(self, learner, make_batch, slow):
        one = learner(beta=0.7, alpha=0.3)
        new, dark, labelled = (
            make_batch([2, 3, 3]),
            *(replayed(make_batch, [0, 1, 1, 0], [0, 1, 2, 3], seed=s) for s in (1, 2)),
        )
        losses = one.losses(new, dark, labelled)
        assert set(losses) == {"new", "logits", "replay", "future", "past"}
        assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, [2, 3]), rel=1e-5)
        labels = slow.cross_entropy(labelled.features, labelled.y, [0, 1])
        assert losses["replay"].item() == pytest.approx(0.7 * labels, rel=1e-5)
        far = one.model.classify(dark.features) - dark.logits
        assert losses["logits"].item() == pytest.approx(0.3 * (far**2).mean().item(), rel=1e-5)

    def test_the_margin_to_the_future(self, learner, model, make_batch):
        """Over the samples that lack it; of each, the best of its own task against the best of those to come."""
        one = learner(eta=0.4, margin=0.2)
        new, *replays = (
            make_batch([2, 3, 3, 2]),
            *(replayed(make_batch, [0, 1, 1, 0], [0, 1, 2, 3], seed=s) for s in (1, 2)),
        )
        lacks = []
        for batch in (new, *replays):
            for row, y in zip(model.classify(batch.features).tolist(), batch.y.tolist(), strict=True):
                own = (0, 1) if y < 2 else (2, 3)
                lacks.append(max(row[4:]) + 0.2 - max(row[c] for c in own))
        short = [lack for lack in lacks if lack > 0]
        assert 0 < len(short) < len(lacks)
        loss = one.losses(new, *replays)["future"].item()
        assert loss == pytest.approx(0.4 * sum(short) / len(short), rel=1e-5)

    def test_new_samples_above_the_past(self, learner, model, make_batch):
        """The past itself is not pushed."""
        one, new = learner(eta=0.4, margin=0.2), make_batch([2, 3, 3, 2, 2, 3])
        lacks = [max(row[:2]) + 0.2 - max(row[2:4]) for row in model.classify(new.features).tolist()]
        short = [lack for lack in lacks if lack > 0]
        assert 0 < len(short) < len(lacks)
        assert one.losses(new)["past"].item() == pytest.approx(0.4 * sum(short) / len(short), rel=1e-5)
        one.past = False
        assert "past" not in one.losses(new)

    def test_in_the_last_task_there_is_no_future(self, learner, make_batch):
        one = learner()
        one.begin_task(task(4, 5))
        new = make_batch([4, 5])
        loss = one.losses(new)["future"]
        assert loss.item() == 0
        assert not torch.autograd.grad(loss, new.features)[0].any()

    def test_a_class_that_comes_back_is_in_both_times(self, attached, make_batch, slow):
        one = attached(XDER(), (0, 1), (1, 2))
        new = make_batch([1, 2])
        assert one.losses(new)["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, [1, 2]), rel=1e-5)

    def test_only_the_labelled_draw_is_perturbed(self, attached, recorder, make_batch):
        one = attached(XDER(), (0, 1), (2, 3), perturbation=recorder)
        given = [replayed(make_batch, [0, 1], [0, 1], seed=s) for s in (1, 2)]
        one.losses(make_batch([2, 3]), *given)
        assert [call[0] for call in recorder.calls] == given[1:]


class TestImplanting:
    @settings(deadline=None, derandomize=True, max_examples=50)
    @given(seed=st.integers(0, 10**6), gamma=st.floats(0, 1))
    def test_sample_by_sample(self, seed, gamma):
        random = Random(seed, "p")
        stored, now, y = 3 * random.normal(5, 6), 3 * random.normal(5, 6), torch.tensor([0, 1, 0, 1, 1])
        classes = torch.tensor([False, False, True, True, False, True])
        result = implanted(stored, now, y, classes, gamma)
        for i in range(5):
            own, highest = stored[i, y[i]].item(), max(now[i, c].item() for c in (2, 3, 5))
            scale = gamma * max(own, 0) / highest if highest > own and highest > 0 else 1
            for c in range(6):
                expected = scale * now[i, c].item() if c in (2, 3, 5) else stored[i, c].item()
                assert result[i, c].item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
            if own > 0:
                assert result[i, [2, 3, 5]].max() <= max(own, gamma * own) * (1 + 1e-5)

    def test_the_memory_is_refreshed_where_it_was_drawn(self, learner, model, make_batch):
        held = memory()
        one = learner(held, gamma=0.5)
        before = held.fields["logits"].clone()
        batches = [replayed(make_batch, [0, 1], [4, 1], held), replayed(make_batch, [1], [3], held, seed=2)]
        one.losses(make_batch([2, 3]), *batches)
        for batch in batches:
            now = model.classify(batch.features).detach()
            fresh = implanted(before[batch.slot], now, batch.y, torch.tensor([False] * 2 + [True] * 4), 0.5)
            torch.testing.assert_close(held.fields["logits"][batch.slot], fresh)
        others = [0, 2, 5, *range(6, 13)]
        assert held.fields["logits"][others].equal(before[others])
        assert held.fields["logits"][:, :2].equal(before[:, :2]), "what the past was stays"

    def test_the_kth_time_with_a_chance_of_one_in_k(self, learner, make_batch):
        held, changed = memory(), 0
        one = learner(held)
        batch = replayed(make_batch, [0] * 6, range(6), held)
        for number in range(1, 41):
            held.fields["logits"][:, 2:] = 99.0
            one._implant(batch, torch.ones(6, 6))
            hit = (held.fields["logits"][:6, 2] != 99).sum().item()
            assert number > 1 or hit == 6
            changed += hit
        expected = 6 * sum(1 / k for k in range(1, 41))
        spread = math.sqrt(6 * sum(1 / k * (1 - 1 / k) for k in range(1, 41)))
        assert abs(changed - expected) < 3 * spread
        one.begin_task(task(4, 5))
        assert not one.drawn.any()


class TestTheMemory:
    def test_as_many_of_each_class(self, make_trainer, train):
        trainer = make_trainer((8, 8, 9, 8, 7, 8), tasks=3, learner="xder", memory=13)
        kept = []
        while True:
            list(trainer.steps())
            trainer.end_task()
            kept.append(Counter(trainer.learning.memory.all()["y"].tolist()))
            if not trainer.next_task():
                break
        assert sorted(kept[0].values()) == [6, 7]
        assert all(kept[1][c] == 3 for c in (0, 1)) and sorted(kept[1][c] for c in (2, 3)) == [3, 4]
        assert all(kept[2][c] == 2 for c in range(4)) and sorted(kept[2][c] for c in (4, 5)) == [2, 3]

    def test_of_classes_that_come_again_every_task_has_its_part(self, attached):
        """By how many samples it had: 40, 40 and 80; then fewer of each, for a class that is new."""
        held = memory(24)
        one = attached(XDER(), memory=held)
        for number, count in enumerate((40, 40, 80)):
            one.begin_task(task(0, 1))
            one.end_task(Batch(image=torch.full((count, 3), number), y=torch.tensor([0, 1]).repeat(count // 2)))
            sizes = Counter(zip(held.all()["image"][:, 0].tolist(), held.all()["y"].tolist(), strict=True))
            parts = {0: {0: 12}, 1: {0: 6, 1: 6}, 2: {0: 3, 1: 3, 2: 6}}[number]
            # Which of the old ones stay is chance, so that their own parts are so on average only.
            assert all(sizes[number, c] == parts[number] for c in (0, 1))
            assert all(sum(sizes[task, c] for task in parts) == 12 for c in (0, 1))
            assert all(sizes[task, c] > 0 for task in parts for c in (0, 1))
        one.begin_task(task(2))
        one.end_task(Batch(image=torch.full((20, 3), 3), y=torch.full((20,), 2)))
        assert Counter(held.all()["y"].tolist()) == {0: 8, 1: 8, 2: 8}
        assert {0, 1, 2, 3} == set(held.all()["image"][:, 0].tolist()), "not the first ones alone"

    def test_samples_that_come_back_leave_new_classes_their_part(self, attached):
        held = memory(12)
        one = attached(XDER(), (0, 1), memory=held)
        one.end_task(Batch(image=torch.zeros(20, 3), y=torch.tensor([0, 1] * 10)))
        one.begin_task(task(2, 3, 0))
        one.end_task(Batch(image=torch.ones(22, 3), y=torch.tensor([2, 3] * 10 + [0, 0])))
        assert Counter(held.all()["y"].tolist()) == dict.fromkeys(range(4), 3)

    def test_a_class_with_few_samples_gives_all(self, attached):
        held = memory(12)
        one = attached(XDER(), (0, 1), memory=held)
        y = torch.tensor([0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
        one.end_task(Batch(image=torch.randn(10, 3), y=y))
        assert Counter(held.all()["y"].tolist()) == {0: 1, 1: 6}

    def test_new_samples_come_with_logits_below_their_own(self, learner, model):
        held = memory()
        one = learner(held, gamma=0.5)
        images = torch.randn(8, 3)
        y = torch.tensor([2, 3] * 4)
        one.end_task(Batch(image=images, y=y))
        stored = held.all()
        fresh = stored["y"] >= 2
        assert fresh.sum() == 12 - 2 * 3
        logits = model(stored["image"][fresh]).detach()
        past = torch.tensor([True, True, False, False, False, False])
        torch.testing.assert_close(stored["logits"][fresh], implanted(logits, logits, stored["y"][fresh], past, 0.5))
        now, labels = model(torch.zeros(6, 3)).detach(), stored["y"][~fresh]
        kept = torch.tensor([[5.0, 1, 9, 9, 9, 9], [1.0, 5, 9, 9, 9, 9]])[labels]
        torch.testing.assert_close(stored["logits"][~fresh], implanted(kept, now, labels, ~past, 0.5))

    @pytest.mark.parametrize("size", [1, 5])
    def test_one_that_is_too_small_is_refused(self, attached, size):
        with pytest.raises(MocaError, match="xder needs a memory of at least one sample a class, here 6"):
            attached(XDER(), (0, 1), memory=memory(size))

    def test_logits_are_stored_as_training_sees_them(self, learner, model):
        """New and old samples normalised among themselves, whatever the running statistics; which stay."""
        model.encoder = nn.BatchNorm1d(3)
        model.eval()
        held = memory()
        one = learner(held, gamma=0.5)
        before = {name: buffer.clone() for name, buffer in model.encoder.named_buffers()}
        one.end_task(Batch(image=5 + torch.randn(8, 3), y=torch.tensor([2, 3] * 4)))
        stored, past = held.all(), torch.tensor([True, True, False, False, False, False])
        fresh = stored["y"] >= 2
        images, y = stored["image"][fresh], stored["y"][fresh]
        normalised = (images - images.mean(0)) / (images.var(0, unbiased=False) + model.encoder.eps).sqrt()
        logits = model.classify(normalised).detach()
        torch.testing.assert_close(stored["logits"][fresh], implanted(logits, logits, y, past, 0.5))
        assert all(torch.equal(buffer, before[name]) for name, buffer in model.encoder.named_buffers())
        assert not model.training

    def test_the_head_is_a_simplex(self):
        """By its recipe; running statistics are those of all methods."""
        assert all(recipe["head"] == "simplex" and "bn_passes" not in recipe for recipe in XDER.recipes.values())

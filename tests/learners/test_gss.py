"""GSS: likeness of gradients against a backward pass a sample; what a full memory gives up, in numbers."""

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import chisquare
from torch import nn

from moca import MocaError, Model
from moca.learners.gss import GSS, Diverse
from moca.memory import Memory, Uniform
from moca.random import Random

SIZE = 6


@pytest.fixture
def model():
    """With BatchNorm and a fixed weight, in training mode as during a step."""
    torch.manual_seed(0)
    model = Model(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), nn.Linear(3, 6))
    model.encoder[3].bias.requires_grad_(False)
    model.encoder[1].running_mean += 0.3
    return model


@pytest.fixture
def make(attached):
    def make(size=SIZE, seed=0, **options):
        learner = attached(GSS(**options), (0, 1), (2, 3))
        return Memory(size, Diverse(size, Random(seed, "store"), learner), Uniform(Random(0, "draw")))

    return make


def samples(count, seed=1, classes=4):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (count,), generator=generator)
    return {"image": torch.randn(count, 3, generator=generator), "y": y}


def gradient(model, image, y):
    """In evaluation mode, by one backward pass, as one long row."""
    model.eval()
    loss = F.cross_entropy(model(image), y)
    model.train()
    return torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])]
    )


def likeness(model, given, stored):
    """Of the batch as a whole and of each of its samples, to all that is stored."""
    known = [gradient(model, i[None], y[None]) for i, y in zip(stored["image"], stored["y"], strict=True)]
    rows = [
        gradient(model, **given),
        *(gradient(model, i[None], y[None]) for i, y in zip(*given.values(), strict=True)),
    ]
    return [1 + max(F.cosine_similarity(row, other, dim=0).item() for other in known) for row in rows]


@pytest.mark.parametrize("stored", [1, 4])
def test_likeness_is_one_plus_the_largest_cosine(make, model, stored):
    memory, kept, new = make(), samples(stored), samples(3, seed=2)
    memory.add(**kept)
    for name, values in new.items():
        memory.fields[name][stored:] = values[0]  # the same as a new one, but in slots that hold nothing yet
    alike, each = memory.storing._similarity(new, memory)
    assert [alike.item(), *each.tolist()] == pytest.approx(likeness(model, new, kept), rel=1e-4)


def test_only_so_many_random_ones_are_compared_with(make, model):
    memory = make(comparisons=2)
    memory.add(**samples(SIZE))
    stored, new = samples(SIZE), samples(3, seed=2)
    pairs = {
        tuple(round(v, 4) for v in likeness(model, new, {k: v[[a, b]] for k, v in stored.items()}))
        for a in range(SIZE)
        for b in range(a)
    }
    seen = set()
    for _ in range(30):
        alike, each = memory.storing._similarity(new, memory)
        seen.add(tuple(round(v, 4) for v in [alike.item(), *each.tolist()]))
    assert seen <= pairs
    assert len(seen) > 5


def test_while_there_is_room_every_sample_comes_in_with_the_score_of_its_batch(make, model):
    memory = make()
    memory.add(**samples(2))
    assert memory.storing.scores.tolist() == pytest.approx([0.1, 0.1, 0, 0, 0, 0, 0])
    expected = likeness(model, samples(3, seed=2), samples(2))[0]
    memory.add(**samples(3, seed=2))
    assert memory.storing.scores.tolist() == pytest.approx([0.1, 0.1, *[expected] * 3, 0, 0], rel=1e-4)
    assert memory.all()["image"].equal(torch.cat([samples(2)["image"], samples(3, seed=2)["image"]]))


@pytest.fixture
def told(make, monkeypatch):
    """A full memory with these scores, offered samples of these likenesses."""

    def told(scores, alike, each, seed=0, stored=None):
        memory = make(len(scores), seed=seed)
        full = {"image": torch.zeros(len(scores), 3), "y": torch.arange(len(scores)) % 4}
        memory.add(**{k: v[:stored] for k, v in full.items()})
        memory.storing.scores[:-1] = torch.tensor(scores)
        monkeypatch.setattr(memory.storing, "_similarity", lambda *given: (torch.tensor(alike), torch.tensor(each)))
        memory.add(image=torch.ones(len(each), 3), y=torch.full((len(each),), 5))
        return memory

    return told


def test_a_full_memory_takes_nothing_of_a_batch_like_what_it_has(told):
    memory = told([1.0, 2.0, 0.5], 1.0, [0.1, 0.1])
    assert 5 not in memory.all()["y"]
    assert memory.storing.scores.tolist() == [1.0, 2.0, 0.5, 0.0]


def test_who_is_met_and_who_gives_way(told):
    """Slot j is met with probability s_j / sum of s and gives way with probability s_j / (s_j + c)."""
    scores, own, tries = [0.2, 0.6, 1.2], 0.8, 1000
    memory, counts = told(scores, 2.0, [own]), [0, 0, 0, 0]
    memory.storing._similarity = lambda *given: (torch.tensor(0.9), torch.tensor([own]))
    for _ in range(tries):
        memory.storing.scores[:-1] = torch.tensor(scores)
        slot = memory.storing.slots({}, memory).item()
        counts[slot] += 1
        after = [*scores[:slot], own, *scores[slot + 1 :]] if slot < 3 else scores
        assert memory.storing.scores.tolist() == pytest.approx([*after, 0])
    expected = [tries * s / sum(scores) * s / (s + own) for s in scores]
    assert chisquare(counts, [*expected, tries - sum(expected)]).pvalue > 1e-3


def test_samples_of_a_batch_meet_different_ones(told):
    for seed in range(20):
        memory = told([1.0, 1.0, 1.0, 1.0], 0.5, [0.0, 0.0, 0.0], seed)
        assert (memory.all()["y"] == 5).sum() == 3


def test_more_samples_than_slots(told):
    memory = told([1.0, 1.0], 0.5, [0.0] * 5)
    assert memory.all()["y"].tolist() == [5, 5]


def test_what_comes_last_into_a_memory_not_full_yet(told):
    """The first sample takes the free slot with its batch's score; the second meets one of before, the third nobody."""
    memory = told([1.0, 1.0, 0.0], 0.5, [0.0, 0.0, 0.0], stored=2)
    assert memory.all()["y"][2] == 5
    assert memory.storing.scores[2].item() == 0.5
    assert sorted(memory.storing.scores[:2].tolist()) == [0.0, 1.0]
    assert memory.storing.scores[3] == 0


def test_a_gradient_of_nothing_is_like_none(make, model):
    """Where the loss is flat, cosines are zero and no division fails."""
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.zero_()
        model.head.bias[0] = 200
    memory = make()
    memory.add(image=torch.randn(3, 3), y=torch.zeros(3, dtype=torch.int64))
    alike, each = memory.storing._similarity(
        {"image": torch.randn(2, 3), "y": torch.zeros(2, dtype=torch.int64)}, memory
    )
    assert [alike.item(), *each.tolist()] == [1, 1, 1]


def test_one_mean_over_new_and_replayed(attached, make_batch):
    gss = attached(GSS(), (0, 1), (2, 3))
    new, replay = make_batch([2, 3, 3]), make_batch([0, 1, 2, 0, 3], seed=1)
    total = sum(gss.losses(new, replay).values())
    both = torch.cat([new.features, replay.features])
    torch.testing.assert_close(total, F.cross_entropy(gss.model.classify(both), torch.cat([new.y, replay.y])))
    assert gss.together


def test_something_to_compare_with():
    with pytest.raises(MocaError):
        GSS(comparisons=0)


@pytest.mark.parametrize("held", [4, SIZE])
def test_scores_stay_with_their_samples_when_the_memory_becomes_smaller(make, held):
    memory = make()
    memory.add(**samples(2))
    memory.add(**samples(held - 2, seed=3))
    score = dict(zip(map(tuple, memory.all()["image"].tolist()), memory.storing.scores.tolist(), strict=False))
    memory.shrink(3)
    assert [score[tuple(image)] for image in memory.all()["image"].tolist()] == memory.storing.scores[:3].tolist()
    assert memory.storing.scores[3:].tolist() == [0]
    memory.add(**samples(5, seed=2))
    assert len(memory) == 3

"""Which passes of a step move BatchNorm's running statistics, and by how much."""

import copy

import pytest
import torch

from moca import Batch, MocaError
from moca.engine.passes import Passes
from moca.learners.derpp import DERpp
from moca.learners.er import ER
from moca.learners.finetune import Finetune
from moca.models import build_model
from moca.perturb import perturbation
from moca.settings import Run, validate

# REPRODUCTION: passes of the official code from task 2 on, and the share of replay in the statistics.
OFFICIAL = {
    ("er", "none"): ("nbbb", 0.79),
    ("er", "wap"): ("nbb", 0.70),
    ("er", "vt"): ("nbb", 0.70),
    ("er", "vmf"): ("nbb", 0.70),
    ("er", "doa_old"): ("nbbb", 0.79),
    ("er", "gaussian"): ("nbbn", 0.50),
    ("er", "doa_new"): ("nbbn", 0.50),
    ("er", "add_new"): ("nbbn", 0.50),
    ("er_ace", "wap"): ("nnbnb", 0.44),
    ("derpp", "wap"): ("n1nbb", 0.64),
}
FIRST_TASK = {
    ("er", "none"): "nbb",
    ("er", "gaussian"): "nb",
    ("er", "doa_old"): "nb",
    ("er_ace", "wap"): "nnbn",
    ("derpp", "wap"): "n1nb",
}
EMPTY = {("er", "none"): "n", ("er", "gaussian"): "n", ("er_ace", "wap"): "nn", ("derpp", "wap"): "n"}
SHORT = {
    ("er", "gaussian"): "nbb",
    ("er", "doa_new"): "nbb",
    ("er", "add_new"): "nbb",
    ("er", "doa_old"): "nbb",
    ("er", "wap"): "nbb",
    ("er", "none"): "nbbb",
}
"""Where the perturbation of a short batch is skipped, its own passes are too."""


def setup(learner, perturb, bn_passes="official", first_task=False, short_batch="perturb"):
    settings = validate(
        Run,
        {"learner": learner, "perturb": perturb, "bn_passes": bn_passes, "model": "convnet:width=3,features=4"},
    )
    model = build_model(settings.model, settings.head, (1, 4, 4), classes=4).train()
    moved = perturbation(perturb, model=model, lr=0.1, classes=4)
    made = settings.learner.make().attach(model, 4, perturbation=moved, skips_short=short_batch == "skip")
    made.first_task = first_task
    return Passes(bn_passes, made), model


def batches(draws):
    generator = torch.Generator().manual_seed(5)
    sizes = {"n": 6, "1": 5, "b": 7} if draws == 2 else {"n": 6, "b": 7}
    return {
        role: Batch(x=torch.randn(size, 1, 4, 4, generator=generator) * (i + 1) + i, y=torch.zeros(size).long())
        for i, (role, size) in enumerate(sizes.items())
    }


def statistics(model):
    return {k: v.clone() for k, v in model.state_dict().items() if "running" in k}


def literally(model, given, sequence):
    """The statistics after running the listed passes one after the other."""
    model = copy.deepcopy(model).train()
    for role in sequence:
        model.encoder(given[role].x)
    return statistics(model)


def call(passes, given):
    new, *replays = given.values()
    return passes(new, replays)


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("method", OFFICIAL, ids="+".join)
def test_official_sequences(method):
    passes, model = setup(*method)
    given = batches(2 if method[0] == "derpp" else 1)
    expected = literally(model, given, OFFICIAL[method][0])
    call(passes, given)
    assert_same(statistics(model), expected)


@pytest.mark.parametrize("method", FIRST_TASK, ids="+".join)
def test_official_sequences_in_the_first_task(method):
    passes, model = setup(*method, first_task=True)
    given = batches(2 if method[0] == "derpp" else 1)
    expected = literally(model, given, FIRST_TASK[method])
    call(passes, given)
    assert_same(statistics(model), expected)


@pytest.mark.parametrize("method", EMPTY, ids="+".join)
def test_official_sequences_while_the_memory_is_empty(method):
    passes, model = setup(*method, first_task=True)
    given = {"n": batches(1)["n"]}
    expected = literally(model, given, EMPTY[method])
    call(passes, given)
    assert_same(statistics(model), expected)


@pytest.mark.parametrize("method", SHORT, ids="+".join)
def test_official_sequences_of_a_short_batch_that_is_not_perturbed(method):
    """Six new samples, seven replayed; with as many of both the usual sequence."""
    passes, model = setup(*method, short_batch="skip")
    given = batches(1)
    expected = literally(model, given, SHORT[method])
    call(passes, given)
    assert_same(statistics(model), expected)
    passes, model = setup(*method, short_batch="skip")
    given["b"] = Batch(x=given["b"].x[:6], y=given["b"].y[:6])
    expected = literally(model, given, OFFICIAL[method][0])
    call(passes, given)
    assert_same(statistics(model), expected)


@pytest.mark.parametrize("method", OFFICIAL, ids="+".join)
def test_share_of_replay_in_the_statistics(method):
    """Each pass takes a tenth of its batch: what the statistics become is linear in the batches' own ones."""
    passes, model = setup(*method)
    given = batches(2 if method[0] == "derpp" else 1)
    first = model.encoder.stages[0][1]
    means = {}
    for role, batch in given.items():
        means[role] = model.encoder.stages[0][0](batch.x).mean((0, 2, 3)).detach()
    call(passes, given)
    weights = torch.linalg.lstsq(torch.stack(list(means.values()), 1), first.running_mean).solution
    share = 1 - weights[0] / weights.sum()
    assert round(share.item(), 2) == pytest.approx(OFFICIAL[method][1])


@pytest.mark.parametrize(("learner", "sequence"), [("er", "nbbb"), ("er", "b"), ("er_ace", "bnnb"), ("derpp", "n1bb")])
@pytest.mark.parametrize("first_task", [True, False])
def test_a_sequence_of_ones_own(learner, sequence, first_task):
    passes, model = setup(learner, "none", bn_passes=sequence, first_task=first_task)
    given = batches(2 if learner == "derpp" else 1)
    expected = literally(model, given, sequence)
    call(passes, given)
    assert_same(statistics(model), expected)


class Thrice(ER):
    """With three draws a step."""

    draws = 3


def test_every_draw_has_a_letter():
    assert [learner().batches for learner in (Finetune, ER, DERpp, Thrice)] == ["n", "nb", "n1b", "n12b"]
    passes, _ = setup(Thrice, "none", bn_passes="nb21")
    assert passes._updates("nb21", 4) == [0, 3, 2, 1]
    assert passes._updates("nb21", 1) == [0], "while the memory is empty"
    with pytest.raises(MocaError, match="made of n, 1, 2, b "):
        setup(Thrice, "none", bn_passes="n3")


@pytest.mark.parametrize("learner", ["er", "er_ace", "derpp"])
@pytest.mark.parametrize("first_task", [True, False])
def test_clean_is_one_pass_a_batch(learner, first_task):
    passes, model = setup(learner, "none", bn_passes="clean", first_task=first_task)
    given = batches(2 if learner == "derpp" else 1)
    expected = literally(model, given, given)
    call(passes, given)
    assert_same(statistics(model), expected)


@pytest.mark.parametrize(
    ("learner", "first_task", "sequence"),
    [("er", True, "n"), ("er", False, "b"), ("derpp", True, "n"), ("derpp", False, "1b")],
)
def test_replay_is_the_new_batch_until_classes_are_old_and_then_the_replayed_ones(learner, first_task, sequence):
    passes, model = setup(learner, "none", bn_passes="replay", first_task=first_task)
    given = batches(2 if learner == "derpp" else 1)
    expected = literally(model, given, sequence)
    call(passes, given)
    assert_same(statistics(model), expected)


def test_share_of_clean_passes():
    """Momentum 0.1: the new batch comes first and gets 0.09, the replay batch then 0.1, which is 53 % of both."""
    passes, model = setup("er", "none", bn_passes="clean")
    given = batches(1)
    conv, norm = model.encoder.stages[0][0], model.encoder.stages[0][1]
    new, replay = (conv(given[r].x).mean((0, 2, 3)).detach() for r in "nb")
    call(passes, given)
    torch.testing.assert_close(norm.running_mean, 0.09 * new + 0.1 * replay)


@pytest.mark.parametrize("bn_passes", ["clean", "replay"])
def test_concatenated_is_one_pass_over_both(bn_passes):
    passes, model = setup("er:passes=concatenated", "none", bn_passes)
    given = batches(1)
    twin = copy.deepcopy(model)
    h = twin.encoder(torch.cat([given["n"].x, given["b"].x]))
    new, (replay,) = call(passes, given)
    torch.testing.assert_close(new.features, h[:6])
    torch.testing.assert_close(replay.features, h[6:])
    assert_same(statistics(model), statistics(twin))


@pytest.mark.parametrize("method", [*OFFICIAL, ("er_ace", "none")], ids="+".join)
def test_features_are_those_of_each_batch_alone_whatever_the_sequence(method):
    passes, model = setup(*method, bn_passes="official" if method in OFFICIAL else "clean")
    given = batches(2 if method[0] == "derpp" else 1)
    twin = copy.deepcopy(model)
    new, replays = call(passes, given)
    for batch in (new, *replays):
        torch.testing.assert_close(batch.features, twin.encode(batch.x))
        assert batch.features.requires_grad
    torch.testing.assert_close(new.logits, twin.classify(new.features))


@pytest.mark.parametrize("bn_passes", ["replay", "clean", "official"])
def test_without_replay_only_new_data_move_the_statistics(bn_passes):
    passes, model = setup("er", "none", bn_passes=bn_passes, first_task=bn_passes != "replay")
    given = {"n": batches(1)["n"]}
    expected = literally(model, given, "n")
    call(passes, given)
    assert_same(statistics(model), expected)


@pytest.mark.parametrize("method", [("er", "fgsm"), ("er_ace", "none"), ("derpp", "gaussian"), ("finetune", "none")])
def test_unknown_combinations_are_refused(method):
    with pytest.raises(MocaError, match="bn_passes=official is not available for") as error:
        setup(*method)
    assert "\n" not in str(error.value)


def test_official_means_separate_passes():
    with pytest.raises(MocaError, match="means separate passes"):
        setup("er:passes=concatenated", "none")

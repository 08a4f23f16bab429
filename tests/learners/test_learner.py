"""What all learners share: which classes are old, when a perturbation is called, how a step is made."""

import pytest
import torch

from moca import Learner, MocaError
from moca.batch import Batch
from moca.memory import Reservoir, Uniform
from moca.parts import LEARNERS, PERTURBATIONS
from moca.perturb.none import Unmoved
from tests.learners.conftest import task

PERTURBED = [
    "agem",
    "bfp",
    "bic",
    "er",
    "derpp",
    "er_ace",
    "focal",
    "gss",
    "lucir",
    "mir",
    "reweight",
    "ssil",
    "teacher",
    "xder",
]
"""Learners that take a perturbation."""
BY_THEMSELVES = ["gem", "pass", "proxy"]
"""Those that do, and replay something else than drawn samples: their own tests see to it."""


def learner(name, model, perturbation=None):
    return LEARNERS.find(name)().attach(model, 6, perturbation=perturbation)


def test_every_learner_that_takes_a_perturbation_is_tested():
    assert {*PERTURBED, *BY_THEMSELVES} == {name for name in LEARNERS.built_in if not LEARNERS.find(name).refuses}


def test_old_means_seen_in_earlier_tasks_only(model):
    er = learner("er", model)
    er.begin_task(task(0, 3))
    assert er.first_task
    assert er.is_old(torch.tensor([0, 3, 3])).tolist() == [False] * 3
    er.begin_task(task(1, 2))
    assert not er.first_task
    assert er.is_old(torch.tensor([0, 1, 2, 3])).tolist() == [True, False, False, True]
    assert er.seen.tolist() == [True] * 4 + [False] * 2
    er.begin_task(task(4))
    assert er.is_old(torch.tensor([0, 1, 2, 3, 4])).tolist() == [True] * 4 + [False]


def test_a_class_that_comes_back_is_old(model):
    er = learner("er", model)
    er.begin_task(task(0, 1))
    er.begin_task(task(1, 2))
    assert er.is_old(torch.tensor([0, 1, 2])).tolist() == [True, True, False]
    assert er.came.tolist() == [0, 0, 1, -1, -1, -1]


@pytest.mark.parametrize("name", PERTURBED)
def test_the_perturbation_is_called_once_a_step_from_the_second_task_on(model, make_batch, recorder, name):
    one = learner(name, model, recorder)
    new = make_batch([0, 1])

    def replays():
        labels = [0, 1, 2]
        old = one.is_old(torch.tensor(labels)).tolist()
        return [make_batch(labels, seed=s, stored=True, old=old) for s in range(one.draws)]

    one.begin_task(task(0, 1))
    one.losses(new)
    one.losses(new, *replays())
    assert recorder.calls == []

    one.begin_task(task(2, 3))
    one.losses(new)
    assert recorder.calls == [], "nothing is replayed, so nothing can be moved"
    given = replays()
    one.losses(new, *given)
    assert len(recorder.calls) == 1
    replay, passed_new = recorder.calls[0]
    assert replay is given[-1]
    assert replay.old.tolist() == [True, True, False]
    assert passed_new is new


@pytest.mark.parametrize("name", PERTURBED)
def test_without_perturbation_features_pass_unchanged(model, make_batch, name):
    one = learner(name, model)
    one.begin_task(task(0, 1))
    one.begin_task(task(2, 3))
    replay = make_batch([0, 1, 2], old=[True, True, False])
    assert one.perturbed(replay, replay) is replay.features


@pytest.mark.parametrize("name", PERTURBED)
def test_a_short_batch_is_perturbed_or_skipped_as_asked(model, make_batch, recorder, name):
    """The official code leaves batches alone that are shorter than what is replayed."""
    for skips, sizes, called in (
        (False, (2, 3), 1), (False, (3, 3), 1), (True, (2, 3), 0), (True, (3, 3), 1), (True, (3, 2), 0),
    ):  # fmt: skip
        one = LEARNERS.find(name)().attach(model, 6, perturbation=recorder, skips_short=skips)
        one.begin_task(task(0, 1))
        one.begin_task(task(2, 3))
        recorder.calls.clear()
        new = make_batch([2, 3, 2][: sizes[0]])
        replays = [
            make_batch([0, 1, 2][: sizes[1]], seed=s, stored=True, old=[True, True, False][: sizes[1]])
            for s in range(one.draws)
        ]
        one.losses(new, *replays)
        assert len(recorder.calls) == called
        moved = replays[-1].features + torch.tensor([[1.0], [1.0], [0.0]])[: sizes[1]]
        torch.testing.assert_close(replays[-1].moved, moved if called else replays[-1].features)


def test_what_the_classifier_saw_is_there_to_be_looked_at(model, make_batch, recorder):
    one = learner("er", model, recorder)
    replay = make_batch([0, 1, 2], old=[True, True, False])
    one.begin_task(task(0, 1))
    assert one.perturbed(replay, replay) is replay.moved is replay.features
    one.begin_task(task(2, 3))
    one.perturbed(replay, replay)
    torch.testing.assert_close(replay.moved - replay.features, torch.tensor([[1.0] * 3, [1.0] * 3, [0.0] * 3]))


def test_resumes_exactly(model, recorder):
    one, other = (learner("er_ace", model, recorder) for _ in range(2))
    for classes in ((0, 1), (2, 5)):
        one.begin_task(task(*classes))
    recorder.count = 3
    state = one.state_dict()
    one.begin_task(task(3, 4))
    recorder.count = 0
    other.load_state_dict(state)
    assert other.seen.tolist() == [True, True, True, False, False, True]
    assert other.current.tolist() == [False, False, True, False, False, True]
    assert not other.first_task
    assert recorder.count == 3


class Plain(Learner):
    """Nothing but the one verb that every learner has."""

    def losses(self, new: Batch, *replays: Batch):
        return {"a": new.logits.square().mean(), "b": 2 * new.logits[:, 0].mean()}


class TestDefaults:
    """The verbs that a learner may leave out."""

    def test_a_loss_is_all_that_is_needed(self, attached):
        plain = attached(Plain(), (0, 1), (2, 3))
        assert isinstance(plain.perturbation, Unmoved)
        assert plain.memory is None and not plain.together and plain.static
        assert plain.official_passes(plain.perturbation) is None
        assert (Plain.draws, Plain.keeps, Plain.store, Plain.draw) == (1, (), Reservoir, Uniform)

    def test_without_a_loss_there_is_no_learner(self, attached, make_batch):
        with pytest.raises(MocaError):
            attached(Learner(), (0, 1)).losses(make_batch([0]))

    def test_an_update_is_a_step_down_the_sum_of_the_losses(self, attached, model, make_batch):
        plain, optimiser = attached(Plain(), (0, 1)), torch.optim.SGD(model.parameters(), lr=0.1)
        before = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():
            p.grad = torch.full_like(p, 100.0)  # of a step before, to be forgotten
        losses = plain.losses(make_batch([0, 1, 1]))
        expected = torch.autograd.grad(losses["a"] + losses["b"], list(model.parameters()), retain_graph=True)
        plain.update(losses, optimiser)
        for p, start, slope in zip(model.parameters(), before, expected, strict=True):
            torch.testing.assert_close(p.detach(), start - 0.1 * slope)

    def test_a_prediction_is_the_model_s(self, attached, model):
        x = torch.randn(5, 3)
        assert torch.equal(attached(Plain(), (0, 1)).predict(x), model(x))

    def test_the_end_of_a_task_changes_nothing(self, attached, make_batch):
        plain = attached(Plain(), (0, 1))
        before = plain.state_dict()
        plain.end_task(Batch(image=torch.zeros(2, 3), y=torch.tensor([0, 1])))
        assert str(plain.state_dict()) == str(before)

    def test_raw_images_become_floats(self, attached):
        assert attached(Plain(), (0, 1)).view(torch.tensor([[3]], dtype=torch.uint8)).dtype == torch.float32


def test_more_classes_may_come(model):
    er = learner("er", model)
    er.begin_task(task(0, 1))
    er.begin_task(task(2, 5))
    er.grow(9)
    assert er.seen.tolist() == [True, True, True, False, False, True, False, False, False]
    assert er.current.tolist() == [False, False, True, False, False, True, False, False, False]
    er.begin_task(task(8))
    assert er.is_old(torch.tensor([0, 5, 8])).tolist() == [True, True, False]


def test_growing_reaches_the_perturbation(model):
    vt = LEARNERS.find("er")().attach(model, 6).perturbation
    er = learner("er", model, vt)
    grown = []
    vt.grow = grown.append
    er.grow(8)
    assert grown == [8]


class TestWhichPerturbationItTakes:
    """Nothing is said where it takes it."""

    def why_not(self, perturb, **facts):
        learner = type("Some", (Learner,), facts)()
        return learner.why_not(PERTURBATIONS.find(perturb)())

    def test_one_that_replays_images_takes_all(self):
        assert {self.why_not(name) for name in PERTURBATIONS.built_in} == {""}

    def test_one_that_refuses_takes_only_what_moves_nothing(self):
        said = {name: self.why_not(name, refuses="no", replays_images=False) for name in PERTURBATIONS.built_in}
        assert said == {name: "" if name == "none" else "no" for name in PERTURBATIONS.built_in}

    def test_prototypes_are_moved_by_those_that_need_no_images(self):
        refused = [name for name in PERTURBATIONS.built_in if self.why_not(name, replays_images=False)]
        assert refused == ["doa_old", "wap"]

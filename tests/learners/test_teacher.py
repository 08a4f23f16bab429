"""Teachers: a slow average of any learner's weights, and what they teach."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from moca import Batch, MocaError
from moca.learners.derpp import DERpp
from moca.learners.teacher import Teacher
from moca.memory import Past, Reservoir
from moca.parts import LEARNERS
from moca.perturb.wap import WAP
from moca.settings import Run, validate
from tests.learners.conftest import task

INNER = [name for name in LEARNERS.built_in if name != "teacher"]


@pytest.fixture
def learner(attached):
    return lambda **options: attached(Teacher(**options), (0, 1), (2, 3))


def step(learner, make_batch, optimiser, seed=0):
    replays = [make_batch([0, 1, 2, 0], seed=seed + s + 1, stored=True, old=[1, 1, 0, 1]) for s in range(learner.draws)]
    losses = learner.losses(make_batch([2, 3, 3], seed=seed), *replays)
    learner.update(losses, optimiser)
    return losses


class TestTheLearnerWithin:
    @pytest.mark.parametrize("name", INNER)
    def test_its_facts_are_those_of_the_whole(self, name):
        inner, whole = LEARNERS.find(name)(), Teacher(of=name)
        for fact in ("draws", "keeps", "store", "draw", "outputs", "sees_all_tasks", "static", "refuses",
                     "replays_images", "has_memory", "together", "ends_tasks", "batches"):  # fmt: skip
            assert getattr(whole, fact) == getattr(inner, fact), fact
        assert whole.official_passes(WAP()) == inner.official_passes(WAP())
        for place, recipe in inner.recipes.items():
            settings = {name: value for name, value in recipe.items() if name in Run.model_fields}
            assert settings.items() <= whole.recipes[place].items()
            assert whole.recipes[place].keys() - settings.keys() <= whole.options.keys()

    def test_its_options_are_separated_by_slashes(self):
        one = validate(Run, {"learner": "teacher:of=derpp:alpha=0.25/beta=0.75,form=cls"}).learner.make()
        assert isinstance(one.inner, DERpp)
        assert (one.inner.alpha, one.inner.beta, one.form) == (0.25, 0.75, "cls")
        assert (one.store, one.draws) == (Reservoir, 2)
        assert Teacher(of="agem").draw is Past

    def test_a_copy_is_around_a_copy(self):
        one = Teacher(of="derpp")
        other = copy.deepcopy(one)
        assert other.inner is not one.inner and isinstance(other.inner, DERpp)

    def test_settings_are_written_down_and_read_again(self):
        run = validate(Run, {"learner": "teacher:of=derpp:alpha=0.25/beta=0.75"})
        assert str(run.learner) == "teacher:of=derpp:alpha=0.25/beta=0.75"
        assert validate(Run, {"learner": str(run.learner)}).learner == run.learner

    @pytest.mark.parametrize(
        ("of", "said"),
        [
            ("erx", "unknown learner"),
            ("teacher:of=er", "not around another"),
            ("derpp:alpah=1", "alpha"),
            ("", "unknown learner"),
        ],
    )
    def test_mistakes_are_one_line(self, of, said):
        with pytest.raises(MocaError, match=said) as error:
            Teacher(of=of)
        assert "\n" not in str(error.value)

    def test_what_it_refuses_is_refused(self):
        with pytest.raises(MocaError, match="'teacher:of=icarl' cannot take 'vt': its replayed samples"):
            validate(Run, {"learner": "teacher:of=icarl", "perturb": "vt"})
        with pytest.raises(MocaError, match="memory must be at least 1"):
            validate(Run, {"learner": "teacher:of=er", "memory": 0})
        assert validate(Run, {"learner": "teacher:of=finetune", "memory": 0}).memory.size == 0

    def test_its_terms_stay_as_they_are(self, attached, make_batch):
        given = [make_batch([2, 3]), *(make_batch([0, 1, 2], seed=s, stored=True) for s in (1, 2))]
        alone = attached(DERpp(), (0, 1), (2, 3)).losses(*given)
        losses = attached(Teacher(of="derpp"), (0, 1), (2, 3)).losses(*given)
        assert list(losses) == [*alone, "teacher"]
        assert all(losses[name].item() == term.item() for name, term in alone.items())

    def test_an_update_of_its_own_counts_the_teacher_too(self, attached, model, make_batch):
        """A-GEM looks for its terms by name."""
        learner = attached(Teacher(of="agem", weight=3), (0, 1), (2, 3))
        for p in learner.stable.parameters():
            p.data += 1
        replay = make_batch([0, 1, 0], seed=4, old=[True] * 3)
        losses = learner.losses(make_batch([2, 3]), replay)
        gradients = torch.autograd.grad(losses["new"] + losses["teacher"], list(model.parameters()), retain_graph=True)
        reference = torch.autograd.grad(losses["reference"], list(model.parameters()), retain_graph=True)
        assert sum((g * r).sum() for g, r in zip(gradients, reference, strict=True)) > 0, "nothing is projected here"
        before = [p.detach().clone() for p in model.parameters()]
        learner.update(losses, torch.optim.SGD(model.parameters(), lr=0.1))
        for p, start, slope in zip(model.parameters(), before, gradients, strict=True):
            torch.testing.assert_close(p.detach(), start - 0.1 * slope)


class TestTheAverage:
    def test_at_first_it_is_the_plain_mean_of_the_student_s_weights(self, learner, model, make_batch):
        one, optimiser, passed = learner(decay=0.9), torch.optim.SGD(model.parameters(), lr=0.5), []
        for number in range(5):
            step(one, make_batch, optimiser, 10 * number)
            passed.append(model.head.weight.detach().clone())
            torch.testing.assert_close(one.stable.head.weight, torch.stack(passed).mean(0))

    @pytest.mark.parametrize(
        ("form", "published"), [("mean", (0.15, 0.999, 1)), ("cls", (0.15, 0.999, 0.7)), ("mkd", (5.5, 0.99, 1))]
    )
    def test_weight_decay_and_rate_are_the_papers_unless_given(self, form, published):
        assert Teacher(form=form).strength == published
        assert Teacher(form=form, weight=0, decay=0, rate=0.5).strength == (0, 0, 0.5)

    def test_then_it_keeps_its_share(self, learner, model, make_batch):
        one, optimiser = learner(decay=0.75), torch.optim.SGD(model.parameters(), lr=0.5)
        one.steps.fill_(100)
        before = one.stable.head.weight.clone()
        step(one, make_batch, optimiser)
        torch.testing.assert_close(one.stable.head.weight, 0.75 * before + 0.25 * model.head.weight.detach())

    def test_teachers_follow_as_often_as_said(self, learner, model, make_batch):
        one = learner(form="cls", rate=0.2, plastic_rate=0.7)
        moved = [0, 0]
        for _ in range(400):
            before = [t.head.weight.clone() for t in one.teachers]
            model.head.weight.data += 1
            one._update_teachers()
            for i, (t, old) in enumerate(zip(one.teachers, before, strict=True)):
                moved[i] += not t.head.weight.equal(old)
        for count, rate in zip(moved, (0.2, 0.7), strict=True):
            assert abs(count / 400 - rate) < 3 * math.sqrt(rate * (1 - rate) / 400)

    def test_running_statistics_follow_too_and_teaching_leaves_them_alone(self, make_trainer):
        trainer = make_trainer(learner="teacher:decay=0.5")
        learning, steps = trainer.learning, trainer.steps()
        for _ in range(3):
            next(steps)
        student, stable = learning.model.state_dict(), learning.learner.stable.state_dict()
        names = [name for name in student if "running" in name]
        assert names
        before = {name: stable[name].clone() for name in names}
        next(steps)
        for name in names:
            torch.testing.assert_close(stable[name], (before[name] + student[name]) / 2)

    def test_it_is_never_trained(self, learner, model, make_batch):
        one = learner()
        losses = step(one, make_batch, torch.optim.SGD(model.parameters(), lr=0.5))
        assert losses["teacher"].requires_grad
        assert all(p.grad is None and not p.requires_grad for p in one.stable.parameters())


class TestTeaching:
    def test_the_better_of_two_teaches_each_sample(self, learner, model, make_batch):
        one = learner(form="cls", weight=1)
        one.plastic.head.weight.data = one.plastic.head.weight.flip(0) * 3
        replay = make_batch([0, 1, 2, 3, 4, 5], seed=3, stored=True)
        taught = [teacher(replay.x) for teacher in one.teachers]
        better = [max(taught, key=lambda t: t[row].softmax(0)[label].item())[row] for row, label in enumerate(range(6))]
        chosen = {int(b.equal(taught[1][row])) for row, b in enumerate(better)}
        assert chosen == {0, 1}, "each is better somewhere"
        term = one.losses(make_batch([2, 3]), replay)["teacher"]
        torch.testing.assert_close(term, ((model(replay.x) - torch.stack(better)) ** 2).mean())

    def test_mkd_is_a_divergence_over_new_and_replayed_samples(self, learner, model, make_batch):
        one = learner(form="mkd", weight=2, temperature=3)
        new, replay = make_batch([2, 3]), make_batch([0, 1, 2], seed=2, stored=True)
        assert one.losses(new, replay)["teacher"].item() == pytest.approx(0, abs=1e-6), "the teacher is the student"
        one.stable.head.weight.data += torch.eye(6, 3)
        each = []
        for x in torch.cat([new.x, replay.x]):
            p, q = (one.stable(x) / 3).softmax(0).tolist(), (model(x) / 3).softmax(0).tolist()
            each.append(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)))
        assert one.losses(new, replay)["teacher"].item() == pytest.approx(2 * 9 * sum(each) / 5, rel=1e-5)
        assert one.losses(new)["teacher"].item() == pytest.approx(2 * 9 * sum(each[:2]) / 2, rel=1e-5)

    @pytest.mark.parametrize("form", ["mean", "cls"])
    def test_where_nothing_is_replayed_nothing_is_taught(self, learner, make_batch, form):
        assert list(learner(form=form).losses(make_batch([2, 3]))) == ["new"]

    def test_what_is_taught_is_not_perturbed(self, attached, recorder, make_batch):
        one = attached(Teacher(weight=1), (0, 1), (2, 3), perturbation=recorder)
        one.stable.head.bias.data += 2
        losses = one.losses(make_batch([2]), make_batch([0, 1], seed=3, old=[True, True]))
        assert losses["teacher"].item() == pytest.approx(4, rel=1e-5)
        assert len(recorder.calls) == 1


class TestPrediction:
    @pytest.mark.parametrize(("form", "share"), [("mean", 1), ("cls", 1), ("mkd", 0.5)])
    def test_by_the_teacher_or_by_the_mean(self, learner, model, form, share):
        one, x = learner(form=form), torch.randn(4, 3)
        one.stable.head.weight.data += 1
        expected = F.linear(x, model.head.weight + share, model.head.bias)
        torch.testing.assert_close(one.predict(x), expected)
        student = learner(form=form, tested="student")
        student.stable.head.weight.data += 1
        torch.testing.assert_close(student.predict(x), model(x))

    def test_by_running_statistics(self, make_trainer):
        trainer = make_trainer(learner="teacher")
        next(trainer.steps())
        learner, x = trainer.learning.learner, torch.randn(6, 1, 4, 4)
        torch.testing.assert_close(learner.predict(x)[:1], learner.predict(x[:1]))
        assert learner.stable.training

    @pytest.mark.parametrize("of", ["ssil", "lwf", "bic", "pass"])
    def test_what_a_learner_makes_of_logits_it_makes_of_the_teacher_s(self, make_trainer, of):
        learning = make_trainer(learner=f"teacher:of={of}", memory=8).learning
        learner, x = learning.learner, torch.randn(6, 1, 4, 4)
        learning.model.eval()
        torch.testing.assert_close(
            learner.predict(x), learner.inner.predict(x), msg="at first the teacher is the student"
        )
        learner.stable.head.weight.data.neg_()
        learner.stable.eval()
        expected = learner.inner.scores(learner.stable(x))
        assert not torch.allclose(expected[:, :2], learner.inner.predict(x)[:, :2])
        torch.testing.assert_close(learner.predict(x), expected)

    def test_a_nearest_mean_stays_one(self, make_trainer):
        trainer = make_trainer(learner="teacher:of=icarl", memory=8)
        list(trainer.steps())
        trainer.end_task()
        learner, x = trainer.learning.learner, torch.randn(6, 1, 4, 4)
        trainer.learning.model.eval()
        assert learner.inner.means.any()
        assert learner.predict(x).equal(learner.inner.predict(x))


def test_more_classes_begin_as_the_student_s(make_trainer):
    learning = make_trainer(learner="teacher:form=cls").learning
    for teacher in learning.learner.teachers:
        teacher.head.weight.add_(1)
    before = learning.learner.stable.head.weight.clone()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    learning.grow(6)
    assert torch.rand(2).equal(expected), "no random numbers of others are used"
    for teacher in learning.learner.teachers:
        assert teacher.head.weight[:4].equal(before)
        assert teacher.head.weight[4:].equal(learning.model.head.weight[4:])
    assert len(learning.learner.inner.came) == 6


def test_no_samples_are_handed_over_for_nothing(make_trainer):
    handed = []
    for of in ("er", "icarl"):
        trainer = make_trainer(learner=f"teacher:of={of}", memory=8)
        trainer.learning.end_task = lambda samples, held, of=of: handed.append(of)
        list(trainer.steps())
        trainer.end_task()
    assert handed == ["icarl"]


def test_a_class_that_comes_back_is_old_in_both(attached):
    one = attached(Teacher(), (0, 1), (1, 2))
    for seen_by in (one, one.inner):
        assert seen_by.is_old(torch.tensor([0, 1, 2])).tolist() == [True, True, False]
    one.begin_task(task(3))
    assert one.inner.number == one.number == 2


def test_memory_policies_ask_the_learner_within(attached):
    one = attached(Teacher(of="er_ace"), (0, 1))
    assert one.highest is one.inner.highest
    with pytest.raises(AttributeError):
        _ = one.nothing_of_the_kind


def test_a_batch_of_one(attached, model):
    one = attached(Teacher(form="mkd"), (0,))
    new = Batch(x=torch.ones(1, 3), y=torch.tensor([0]), features=torch.ones(1, 3), logits=model(torch.ones(1, 3)))
    assert torch.isfinite(sum(one.losses(new, new).values()))

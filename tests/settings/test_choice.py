"""Parts of the user's own instead of names: as classes, objects and functions, and what settings.json says of them."""

import functools
import json
import pickle
import re
from typing import Literal

import pytest
import torch
from torch import nn

from moca import Learner, MocaError, Perturbation, option, register
from moca.learners.er import ER
from moca.models import build_model
from moca.models.encoders.mlp import MLP
from moca.parts import LEARNERS
from moca.perturb.gaussian import Gaussian
from moca.perturb.wap import WAP
from moca.settings import Run, validate
from moca.settings.choice import Absent, _revived, options_of

HERE = __name__


class Mine(ER):
    """A learner with an option of its own.

    More about it.
    """

    weight: float = option(0.5, "how much of it", ge=0, le=1)


class Sideways(Perturbation):
    """A perturbation without options of its own."""

    def direction(self, replay, new):
        return replay.features.roll(1, 1)


class Net(nn.Module):
    """A module that is made for images of a shape."""

    def __init__(self, shape: tuple[int, int, int], width: int = 5, kind: Literal["a", "b"] = "a") -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0] * shape[1] * shape[2], width)

    def forward(self, x):
        return self.layer(x.flatten(1))


class Wider(Net):
    """A module whose constructor is inherited."""


def flat(shape: tuple[int, int, int], width: int = 3) -> nn.Module:
    """A function that makes a module."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], width))


class Maker:
    """An object that makes modules."""

    def __call__(self, width: int = 3) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(width))


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch):
    monkeypatch.setattr(LEARNERS, "registered", {})


def run(**settings):
    return validate(Run, settings)


def written(run):
    """The settings as they stand in settings.json."""
    return json.loads(run.model_dump_json(by_alias=True))


class TestFoundAgain:
    """What stands in a module can be found again: settings.json names it, and it is no object of Python only."""

    @pytest.mark.parametrize("given", [Mine, Mine(), f"{HERE}.Mine", {"name": f"{HERE}.Mine"}])
    def test_a_learner(self, given):
        made = run(learner=given)
        assert not made.learner.own
        assert written(made)["learner"] == {"name": f"{HERE}.Mine", "passes": "separate", "weight": 0.5, "adjust": 0}
        again = validate(Run, written(made))
        assert again.learner.name == f"{HERE}.Mine"
        for settings in (made, again):
            learner = settings.learner.make()
            assert type(learner) is Mine
            assert (learner.weight, learner.passes) == (0.5, "separate")

    @pytest.mark.parametrize(
        "given", [Mine(weight=0.25), f"{HERE}.Mine:weight=0.25", {"name": f"{HERE}.Mine", "weight": 0.25}]
    )
    def test_with_options(self, given):
        made = run(learner=given)
        assert validate(Run, written(made)).learner.make().weight == made.learner.make().weight == 0.25

    @pytest.mark.parametrize("given", [WAP, WAP(), "wap"])
    def test_moca_s_own_parts_go_by_their_short_names(self, given):
        assert run(perturb=given).perturb == run(perturb="wap").perturb or isinstance(given, WAP)
        assert written(run(perturb=given)) == written(run(perturb="wap"))

    def test_a_registered_part_goes_by_its_name(self):
        register(Mine, name="mine")
        for given in (Mine, "mine", "mine:weight=0.5", Mine()):
            assert written(run(learner=given))["learner"]["name"] == "mine"
        assert run(learner="mine:weight=0.75").learner.make().weight == 0.75

    def test_an_encoder_s_class_or_function(self):
        for given, name in ((Net, "Net"), (Wider, "Wider"), (flat, "flat"), (MLP, None)):
            made = run(model=given)
            assert not made.model.own
            assert made.model.name == (f"{HERE}.{name}" if name else "mlp")
            model = build_model(made.model, made.head, (1, 2, 2), 3)
            again = build_model(validate(Run, written(made)).model, made.head, (1, 2, 2), 3)
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))

    @pytest.mark.parametrize("name", ["Net", "Wider", "flat"])
    def test_options_of_an_encoder_are_what_its_maker_takes(self, name):
        made = run(model=f"{HERE}.{name}:width=7").model
        assert made.options["width"] == 7
        assert "shape" not in made.options
        assert build_model(made, Run().head, (1, 2, 2), 3).head.weight.shape == (3, 7)
        with pytest.raises(MocaError, match=r"unknown option 'widht' of .*; did you mean 'width'"):
            run(model=f"{HERE}.{name}:widht=7")
        with pytest.raises(MocaError, match=r"model.width = 'many'"):
            run(model=f"{HERE}.{name}:width=many")

    def test_limits_hold_for_own_parts_too(self):
        with pytest.raises(MocaError, match=r"learner.weight = '2': must be 1 or less"):
            run(learner=f"{HERE}.Mine:weight=2")
        with pytest.raises(MocaError, match=r"weight = 2: must be 1 or less"):
            Mine(weight=2)


class TestInPythonOnly:
    """What cannot be found again is known to settings.json by its name."""

    @staticmethod
    def parts():
        class Local(ER):
            """Nowhere to be found."""

            weight: float = option(0.5, "how much of it")

        class Turned(Gaussian):
            """Nowhere to be found."""

        return {
            "learner": [Local, Local(), Local(weight=0.1)],
            "perturb": [Turned, Turned(lam=3.0)],
            "model": [nn.Linear(4, 2), nn.Sequential(nn.Flatten()), lambda shape: nn.Flatten()],
        }

    @pytest.mark.parametrize("kind", ["learner", "perturb", "model"])
    def test_settings_say_so_load_again_and_cannot_make_it(self, kind):
        for part in self.parts()[kind]:
            made = run(**{kind: part})
            choice = getattr(made, kind)
            assert choice.own
            kept = written(made)
            assert kept[kind]["own"] is True
            assert kept[kind]["name"] == choice.name
            loaded = validate(Run, kept)
            again = getattr(loaded, kind)
            assert again.own and again.name == choice.name
            assert written(loaded) == kept, "nothing of what was told is lost"
            with pytest.raises(MocaError, match=rf"'{choice.name}' was a Python object.*moca.resume\(") as caught:
                again.make()
            assert "\n" not in str(caught.value)

    def test_a_module_is_told_by_its_class_alone(self):
        assert written(run(model=nn.Linear(4, 2)))["model"] == {"name": "Linear", "own": True}

    def test_the_options_of_an_object_are_told(self):
        _, _, learner = self.parts()["learner"]
        kept = written(run(learner=learner))["learner"]
        assert kept == {"name": "Local", "passes": "separate", "weight": 0.1, "adjust": 0, "own": True}

    def test_what_was_given_is_used_and_left_as_it_was(self):
        _, _, learner = self.parts()["learner"]
        choice = run(learner=learner).learner
        first, second = choice.make(), choice.make()
        assert type(first) is type(learner) and first.weight == 0.1
        assert first is not learner and first is not second, "each run has its own"
        first.weight = 5
        assert learner.weight == second.weight == 0.1

    def test_a_module_is_copied_for_each_run(self):
        module = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        choice = run(model=module).model
        first, second = (build_model(choice, Run().head, (1, 2, 2), 3) for _ in range(2))
        with torch.no_grad():
            first.encoder[1].weight.zero_()
        assert module[1].weight.abs().sum() > 0
        assert torch.equal(second.encoder[1].weight, module[1].weight), "its weights are where it begins"

    @pytest.mark.parametrize("maker", [functools.partial(flat, width=4), functools.partial(Net, width=4), Maker()])
    def test_anything_that_makes_a_module(self, maker):
        made = run(model=maker)
        model = build_model(made.model, made.head, (1, 2, 2), 3)
        assert made.model.own
        assert model.head.weight.shape == (3, 3 if isinstance(maker, Maker) else 4)

    def test_without_a_part_nothing_is_checked_that_only_it_knows(self):
        """Settings of own parts are read also where rules about the learner would be asked for."""
        loaded = validate(Run, {"learner": {"name": "Local", "own": True}, "bn_passes": "nbb", "memory": 0})
        assert isinstance(loaded.learner, Absent)

    @pytest.mark.parametrize(
        "given",
        ["mlp:width=3", Net, flat, nn.Linear(4, 2), {"name": "Local", "own": True, "width": 3}],
        ids=["name", "class", "function", "object", "absent"],
    )
    def test_each_can_be_pickled(self, given):
        model = run(model=given).model
        again = pickle.loads(pickle.dumps(model))
        assert again == model or isinstance(given, nn.Module)
        assert (again.model_dump(), again.own, again.as_given()) == (model.model_dump(), model.own, model.as_given())
        if isinstance(model, Absent):
            with pytest.raises(MocaError, match="'Local' was a Python object"):
                again.make()
        else:
            assert type(again.make((1, 2, 2))) is type(model.make((1, 2, 2)))

    def test_one_that_an_older_moca_pickled(self):
        old = (b"cmoca.settings.choice\n_revived\n(cmoca.perturb.gaussian\nGaussian\nVgaussian\n(dVname\nVgaussian\n"
               b"sVlam\nF0.7\nsVfixed_angle\nNsVangle_cap\nNsVcap\nVexact\nsVunit\nI01\nsc__builtin__\nset\n((lVlam\naVname\natRNI00\n"
               b"(dtR.")  # fmt: skip
        now = run(perturb="gaussian:lambda=0.7").perturb
        assert (pickle.loads(old), pickle.loads(old).as_given()) == (now, now.as_given())

    @pytest.mark.parametrize(
        "given", [Gaussian(lam=0.7), nn.Linear(4, 2), flat, {"name": "Local", "own": True, "width": 3}]
    )
    def test_an_own_one_that_an_older_moca_pickled(self, given):
        now = run(perturb=given).perturb if isinstance(given, Perturbation) else run(model=given).model
        part = None if isinstance(given, nn.Module) else now.part
        held = given if isinstance(given, Perturbation | nn.Module) else None
        saved = {"width": 3} if isinstance(given, dict) else {}
        again = _revived(part, now.name, dict(now), {"name"}, held, now.own, saved)
        assert (again, again.object, again.model_dump()) == (now, now.object, now.model_dump())

    def test_the_label_of_an_own_part(self):
        _, _, learner = self.parts()["learner"]
        assert str(run(learner=learner).learner) == run(learner=learner).learner.as_given() == "Local:weight=0.1"
        assert str(run(model=nn.Linear(4, 2)).model) == "Linear"


def test_an_object_made_in_its_own_way_is_kept_as_an_object():
    class Odd(Learner):
        """Takes something that is no option."""

        def __init__(self, thing):
            super().__init__()
            self.thing = thing

        def losses(self, new, *replays):
            return {"new": new.logits.sum()}

    choice = run(learner=Odd([1, 2])).learner
    assert choice.own
    assert choice.make().thing == [1, 2]
    with pytest.raises(MocaError, match="the __init__ of 'Odd' does not take its options; leave it out and declare"):
        run(learner=Odd)


def test_an_option_called_name_is_refused():
    class Bad(ER):
        """An option that has no place."""

        name: str = option("x", "taken")

    with pytest.raises(MocaError, match="'Bad' has an option 'name', which is what every part is called by; rename it"):
        run(learner=Bad)


class TestDefaults:
    """A recipe fills in what was left open."""

    def test_open_options_take_the_recipe_s_value(self):
        choice = run(perturb="gaussian").perturb.with_defaults({"lambda": 0.8})
        assert choice.lam == choice.make().lam == 0.8
        assert run(perturb="gaussian").perturb.lam == 2.0

    @pytest.mark.parametrize("given", ["gaussian:lambda=2", "gaussian:lam=2", Gaussian(), Gaussian(lam=2.0)])
    def test_given_ones_stay_also_at_their_default(self, given):
        assert run(perturb=given).perturb.with_defaults({"lambda": 0.8}).make().lam == 2.0

    @pytest.mark.parametrize("given", [Gaussian(), Gaussian(lam=3.0), Gaussian(lam=2.0)])
    def test_an_object_is_as_its_settings_say(self, given):
        choice = run(perturb=given).perturb.with_defaults({"lambda": 0.8})
        assert choice.lam == choice.make().lam == given.lam

    def test_a_class_of_a_notebook_takes_them_as_one_in_a_file_does(self):
        class Here(Gaussian):
            """No path leads to it."""

        choice = run(perturb=Here).perturb
        assert choice.own and choice.with_defaults({"lambda": 0.8}).make().lam == 0.8

    def test_nothing_to_fill_in(self):
        choice = run(perturb="none").perturb
        assert choice.with_defaults({}) is choice

    def test_a_wrong_recipe_is_told(self):
        with pytest.raises(MocaError, match="unknown option 'lamda'"):
            run(perturb="gaussian").perturb.with_defaults({"lamda": 0.8})


def test_options_of_a_part_are_made_once():
    assert options_of(Mine) is options_of(Mine)
    assert list(options_of(Mine).model_fields) == ["name", "adjust", "passes", "weight"]
    assert options_of(Mine).checked({}) == {"passes": "separate", "weight": 0.5, "adjust": 0}
    assert options_of(Sideways).checked({"lambda": 1.0})["lam"] == 1.0


def test_in_full_a_choice_tells_what_a_recipe_would_set():
    assert str(run(perturb="vt:momentum=0.5").perturb.in_full()) == "vt:lambda=2.0,momentum=0.5"
    assert str(run(perturb="none").perturb.in_full()) == "none"
    assert str(run(learner="er").learner.in_full()) == "er"
    assert str(run(model="mlp:width=3").model.in_full()) == "mlp:width=3"


class WithAttribute(Learner):
    """Mistakes an attribute for an option."""

    name = "what one calls it oneself"
    alpha = 0.5
    beta: float = option(1.0, "declared", ge=0)


@pytest.mark.parametrize(
    "make", [lambda: WithAttribute(alpha=1), lambda: validate(Run, {"learner": f"{HERE}.WithAttribute:alpha=1"})]
)
def test_an_attribute_is_no_option_and_says_how_to_become_one(make):
    told = "is an attribute, not an option; declare it with moca.option: alpha: float = moca.option(0.5, 'what it is')"
    with pytest.raises(MocaError, match=re.escape(told)):
        make()


@pytest.mark.parametrize("name", ["losses", "draws", "alfa"])
def test_what_is_no_attribute_of_ones_own_is_unknown(name):
    with pytest.raises(MocaError, match=f"unknown option '{name}' of '{HERE}.WithAttribute'; "):
        validate(Run, {"learner": f"{HERE}.WithAttribute:{name}=1"})
    assert WithAttribute(beta=2).alpha == 0.5

"""Parts: every one that comes with moca, and how one's own are declared, registered, plugged in and found."""

import ast
import inspect
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Literal

import pytest
import torch
from torch import nn

from moca import Learner, MocaError, Perturbation, Tracker, option, parts, register
from moca.learners.er import ER
from moca.memory import Memory
from moca.models import Model
from moca.models.encoders.base import Encoder
from moca.models.heads import LinearHead
from moca.parts import ENCODERS, KINDS, LEARNERS, PERTURBATIONS, Part, kind_of, load_plugins, path_of
from moca.perturb.gaussian import Gaussian
from moca.random import Random
from moca.settings import Run, validate
from moca.settings.choice import options_of
from moca.state import placed_tensors

BASES = {"learner": Learner, "perturb": Perturbation, "model": Encoder, "track": Tracker}
EVERY = [(setting, name) for setting, kind in KINDS.items() for name in kind.built_in]
every_part = pytest.mark.parametrize(("setting", "name"), EVERY, ids=[f"{s}-{n}" for s, n in EVERY])
METHODS = [(s, n) for s, n in EVERY if s in ("learner", "perturb") and n != "none"]
SHAPE = (1, 4, 4)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """What a test registers is forgotten, and plugins are looked for anew."""
    for kind in KINDS.values():
        monkeypatch.setattr(kind, "registered", {})
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()


class TestBuiltIn:
    """What holds for every file of the parts' folders, also for those that do not exist yet."""

    def test_there_are_some(self):
        assert {"er", "derpp", "er_ace", "agem", "icarl", "finetune", "joint"} <= set(LEARNERS.built_in)
        assert {"none", "gaussian", "vmf", "doa_old", "doa_new", "vt", "wap"} <= set(PERTURBATIONS.built_in)
        assert {"resnet18", "convnet", "mlp"} <= set(ENCODERS.built_in)

    @every_part
    def test_a_file_is_one_part_of_its_kind(self, setting, name):
        kind = KINDS[setting]
        part = kind.find(name)
        assert issubclass(part, BASES[setting])
        assert kind_of(part) is kind
        assert path_of(part) == name
        assert kind.find(f"{part.__module__}.{part.__name__}") is part

    @pytest.mark.parametrize(("setting", "name"), [(s, n) for s, n in EVERY if s in ("learner", "perturb")])
    def test_an_object_of_it_is_written_down_as_its_name_is(self, setting, name):
        made = validate(Run, {"learner": "er", setting: KINDS[setting].find(name)()})
        assert getattr(made, setting).name == name
        assert not made.in_python_only

    @every_part
    def test_its_docstrings_begin_with_a_line(self, setting, name):
        kind = KINDS[setting]
        said = ast.get_docstring(ast.parse(kind.built_in[name].read_text(encoding="utf-8")))
        line = said.split("\n")[0]
        assert kind.lines()[name] == line
        assert line.endswith(".") and len(line) <= 120
        assert inspect.getdoc(kind.find(name)).split("\n")[0].strip()

    @pytest.mark.parametrize(("setting", "name"), METHODS)
    def test_its_module_names_the_paper(self, setting, name):
        """Authors, venue and year, and the number on arXiv where it is there."""
        paper = KINDS[setting].papers()[name]
        assert re.match(r"[A-Z][\w .,-]+, [^,;\d]+ (19|20)\d\d(, arXiv \d{4}\.\d{4,5}\b|[; (.])", paper), paper
        assert paper.endswith(".")

    def test_what_is_said_about_parts_is_read_without_loading_them(self):
        code = """
import sys
from moca.parts import KINDS
for kind in KINDS.values():
    assert kind.lines() and kind.papers()
parts = ("torch", "moca.learners", "moca.perturb", "moca.models", "moca.trackers")
loaded = {m for m in sys.modules if m.startswith(parts)}
assert not loaded, loaded
"""
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0

    @every_part
    def test_every_option_is_described_and_has_a_default(self, setting, name):
        fields = options_of(KINDS[setting].find(name), name).model_fields
        for option_name, field in fields.items():
            if option_name != "name":
                assert field.description, option_name
                assert not field.is_required(), option_name

    @every_part
    def test_defaults_pass_their_own_limits(self, setting, name):
        part = KINDS[setting].find(name)
        made = options_of(part, name)(name=name)
        assert made.checked(made.options) == made.options
        assert str(made) == name

    @pytest.mark.parametrize("name", LEARNERS.built_in)
    def test_the_state_of_a_learner_goes_round(self, name):
        one, other = self.attached(name), self.attached(name)
        for classes in ((0, 1), (2, 3)):
            one.begin_task(SimpleNamespace(classes=classes, train=torch.arange(5)))
        with torch.no_grad():
            for _, tensor in placed_tensors(one.state()):
                if tensor.is_floating_point():
                    tensor.add_(0.5)
        state = one.state_dict()
        assert self.told(other.state_dict()) != self.told(state)
        other.load_state_dict(state)
        assert self.told(other.state_dict()) == self.told(state)
        fresh = self.attached(name).state_dict()
        one.load_state_dict(fresh)
        assert self.told(one.state_dict()) == self.told(fresh)

    @pytest.mark.parametrize("name", PERTURBATIONS.built_in)
    def test_the_state_of_a_perturbation_goes_round(self, name):
        one, other = self.perturbation(name), self.perturbation(name)
        one.random.uniform(3)
        other.load_state_dict(one.state_dict())
        assert self.told(other.state_dict()) == self.told(one.state_dict())
        assert other.random.count == 3

    @staticmethod
    def model(outputs=1):
        torch.manual_seed(0)
        return Model(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), LinearHead(3, 6 * outputs), outputs)

    def perturbation(self, name):
        return PERTURBATIONS.find(name)().attach(Random(0, "perturb"), self.model(), 0.1, 6)

    def attached(self, name):
        learner = LEARNERS.find(name)()
        memory = Memory(8, None, learner.draw(Random(0, "draw"), learner)) if learner.draws else None
        perturb = None if learner.refuses else self.perturbation("vt")
        return learner.attach(self.model(learner.outputs), 6, perturbation=perturb, memory=memory)

    def told(self, state):
        """A state as plain values."""
        if isinstance(state, dict):
            return {key: self.told(value) for key, value in state.items()}
        return state.tolist() if isinstance(state, torch.Tensor) else state


class Strong(Part):
    """A part with options."""

    power: float = option(2.0, "how strong", ge=0)
    way: Literal["up", "down"] = option("up", "which way", alias="to")
    steps: int | None = option(None, "how often", gt=0)


class Stronger(Strong):
    """One with another default and one more option."""

    power: float = option(5.0, "how much stronger", ge=1)
    sure: bool = option(False, "whether that is so")

    def check(self):
        if self.sure and self.way == "down":
            raise MocaError("nobody is sure of going down")


class TestOptions:
    def test_defaults_are_attributes_of_class_and_object(self):
        assert (Strong.power, Strong.way, Strong.steps) == (2.0, "up", None)
        assert (Strong().power, Strong().way, Strong().steps) == (2.0, "up", None)

    def test_given_ones_are_checked_and_become_attributes(self):
        made = Strong(power="3", to="down", steps=2)
        assert (made.power, made.way, made.steps) == (3.0, "down", 2)
        assert Strong(way="down").way == "down", "by either name"
        assert (Strong.power, Strong.way) == (2.0, "up")

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"power": -1}, "power = -1: must be 0 or more"),
            ({"power": float("nan")}, "power = nan: .*finite"),
            ({"to": "left"}, "to = 'left': .*'up' or 'down'"),
            ({"steps": 0}, "steps = 0: must be more than 0"),
            ({"steps": 1.5}, "steps = 1.5: "),
            ({"pwer": 1}, r"unknown option 'pwer' of .*Strong'; did you mean 'power'\?"),
            ({"x": 1}, "unknown option 'x' of .*Strong'; known: power, steps, to, way"),
        ],
    )
    def test_a_mistake_is_one_line(self, options, says):
        with pytest.raises(MocaError, match=says) as caught:
            Strong(**options)
        assert "\n" not in str(caught.value)

    def test_options_are_inherited_and_may_have_other_defaults_and_limits(self):
        assert list(Stronger.options) == ["power", "way", "steps", "sure"]
        assert list(Strong.options) == ["power", "way", "steps"], "what a class adds is its own"
        assert (Stronger().power, Stronger().way) == (5.0, "up")
        with pytest.raises(MocaError, match=r"power = 0.5: must be 1 or more"):
            Stronger(power=0.5)
        assert Strong(power=0.5).power == 0.5

    def test_a_value_alone_is_another_default(self):
        class Weak(Strong):
            """The same, weaker."""

            power = 0.5

        assert Weak.power == Weak().power == 0.5
        assert options_of(Weak).checked({})["power"] == 0.5
        assert options_of(Weak).model_fields["power"].description == "how strong"
        assert list(Weak.options) == list(Strong.options)
        assert Strong().power == 2.0
        with pytest.raises(MocaError, match="power = -1: "):
            Weak(power=-1)

    def test_what_does_not_go_together_is_refused(self):
        with pytest.raises(MocaError, match="nobody is sure"):
            Stronger(sure=True, way="down")
        assert Stronger(way="down").way == "down"

    def test_descriptions_limits_and_aliases_reach_the_settings(self):
        fields = options_of(Strong).model_fields
        assert {name: field.description for name, field in fields.items() if name != "name"} == {
            "power": "how strong",
            "way": "which way",
            "steps": "how often",
        }
        assert fields["way"].alias == "to"

    def test_an_option_without_a_type_is_told(self):
        class Untyped(Part):
            """An option whose type nobody knows."""

            power = option(1.0, "how strong")

        with pytest.raises(MocaError, match=r"option 'power' of Untyped needs its type: power: float = option\("):
            Untyped()

    def test_options_are_positional_nowhere(self):
        with pytest.raises(TypeError):
            Strong(3.0)

    def test_annotations_may_be_strings(self):
        """As `from __future__ import annotations` leaves them."""

        class Later(Part):
            """An annotation that is read later."""

            power: "Literal[1, 2]" = option(1, "how strong")

        with pytest.raises(MocaError, match="power = 3: "):
            Later(power=3)


class Mine(ER):
    """A learner of one's own.

    With more about it.
    """


class TestRegister:
    def test_a_name_of_one_s_choice(self):
        assert register(Mine, name="my_er") is Mine
        assert LEARNERS.find("my_er") is Mine
        assert LEARNERS.registered == {"my_er": Mine}
        assert LEARNERS.lines()["my_er"] == "A learner of one's own."
        assert path_of(Mine) == "my_er"

    def test_its_paper_stands_in_its_docstring(self):
        @register(name="published")
        class Published(ER):
            """A learner with a paper.

            Paper: Doe and Roe,
            Some Journal 2024.

            More.
            """

        register(Mine, name="mine")
        assert LEARNERS.papers()["published"] == "Doe and Roe, Some Journal 2024."
        assert LEARNERS.papers()["mine"] == ""
        assert not LEARNERS.has_card("published") and LEARNERS.has_card("er")

    def test_the_class_s_name_is_the_default(self):
        register(Mine)
        assert LEARNERS.find("mine") is Mine

    def test_as_a_decorator(self):
        @register
        class Other(Gaussian):
            """Without a name."""

        @register(name="third")
        class Another(Gaussian):
            """With a name."""

        assert PERTURBATIONS.registered == {"other": Other, "third": Another}
        assert PERTURBATIONS.find("third")().lam == 2.0

    def test_a_module_or_a_function_is_an_encoder(self):
        @register
        def tiny():
            return nn.Flatten()

        register(nn.Flatten, name="flat")
        assert ENCODERS.registered == {"tiny": tiny, "flat": nn.Flatten}
        assert ENCODERS.lines()["tiny"] == ""

    @pytest.mark.parametrize(("part", "name"), [(Mine, "er"), (Gaussian, "wap"), (nn.Flatten, "mlp")])
    def test_moca_s_own_names_are_taken(self, part, name):
        with pytest.raises(MocaError, match=f"there is a .* '{name}' already; register yours under another name"):
            register(part, name=name)

    def test_a_name_is_given_once(self):
        register(Mine, name="mine")
        register(Mine, name="mine")  # a module that is loaded again
        with pytest.raises(MocaError, match="there is a learner 'mine' already"):
            register(ER, name="mine")

    def test_names_of_different_kinds_do_not_clash(self):
        register(Mine, name="wap")
        assert LEARNERS.find("wap") is Mine
        assert PERTURBATIONS.find("wap").__name__ == "WAP"

    @pytest.mark.parametrize("name", ["a.b", "a:b", "a+b"])
    def test_what_cannot_be_a_name(self, name):
        with pytest.raises(MocaError, match=r"cannot be a name: '.', ':' and '.' have a special meaning"):
            register(Mine, name=name)

    @pytest.mark.parametrize("part", [5, "mine", Mine()])
    def test_what_cannot_be_registered(self, part):
        with pytest.raises(MocaError, match="a class or a function is registered, not "):
            register(part, name="x")

    def test_an_unknown_name_is_answered_with_the_nearest_also_of_one_s_own(self):
        register(Mine, name="superlearner")
        with pytest.raises(MocaError, match=r"unknown learner 'superlerner'; did you mean 'superlearner'\?"):
            LEARNERS.find("superlerner")


class TestPlugins:
    """Packages with an entry point are loaded when a name is not known otherwise, or all are listed."""

    @pytest.fixture
    def plug(self, monkeypatch):
        """Pretend that packages are installed which have these entry points."""
        loaded = []

        def plug(*loads):
            def entry(load):
                def told():
                    loaded.append(load)
                    return load()

                return SimpleNamespace(load=told, value=f"{load.__name__}_package")

            def found(group):
                assert group == "moca.plugins"
                return [entry(load) for load in loads]

            monkeypatch.setattr(parts, "entry_points", found)
            return loaded

        return plug

    @staticmethod
    def brings():
        register(Mine, name="brought")

    @staticmethod
    def broken():
        raise ImportError("no module named 'gone'\nand more")

    def test_what_a_package_brings_is_found(self, plug):
        loaded = plug(self.brings)
        assert LEARNERS.find("brought") is Mine
        assert LEARNERS.find("brought") is Mine
        assert len(loaded) == 1, "loaded once"

    def test_and_listed(self, plug):
        plug(self.brings)
        assert LEARNERS.lines()["brought"] == "A learner of one's own."
        assert "brought" not in PERTURBATIONS.lines()

    def test_known_names_need_no_plugin(self, plug):
        loaded = plug(self.brings)
        LEARNERS.find("er")
        LEARNERS.find("moca.learners.er.ER")
        assert loaded == []

    def test_what_is_still_unknown_is_told(self, plug):
        plug(self.brings)
        with pytest.raises(MocaError, match=r"unknown learner 'brougth'; did you mean 'brought'\?"):
            LEARNERS.find("brougth")

    def test_a_broken_one_is_named(self, plug):
        plug(self.broken)
        says = r"the plugin 'broken_package' cannot be loaded \(ImportError: no module named 'gone'"
        with pytest.raises(MocaError, match=says):
            LEARNERS.find("brought")

    def test_a_clash_is_told(self, plug):
        def clashes():
            register(Mine, name="er")

        plug(clashes)
        with pytest.raises(MocaError, match=r"'clashes_package' cannot be loaded .*there is a learner 'er' already"):
            LEARNERS.lines()


class TestPaths:
    def test_by_dotted_path(self):
        assert LEARNERS.find(f"{__name__}.Mine") is Mine
        assert path_of(Mine) == f"{__name__}.Mine"

    def test_a_file_in_the_folder_where_one_is(self, tmp_path, monkeypatch):
        (tmp_path / "lonely_part.py").write_text(
            "from moca.perturb.gaussian import Gaussian\nclass Lonely(Gaussian):\n    'Alone.'\n"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.path", [p for p in __import__("sys").path if p])
        found = PERTURBATIONS.find("lonely_part.Lonely")
        assert issubclass(found, Gaussian)
        assert str(tmp_path) not in __import__("sys").path, "the path is left as it was"

    def test_a_module_that_fails_is_told(self, tmp_path, monkeypatch):
        (tmp_path / "failing_part.py").write_text("import no_such_thing\n")
        (tmp_path / "dividing_part.py").write_text("1 / 0\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(MocaError, match=r"learner 'failing_part.A' cannot be loaded: ModuleNotFoundError: "):
            LEARNERS.find("failing_part.A")
        with pytest.raises(MocaError, match=r"learner 'dividing_part.A' cannot be loaded: ZeroDivisionError"):
            LEARNERS.find("dividing_part.A")

    @pytest.mark.parametrize("now", ["class (", "def encoder(shape):\n    return (1 +\n", None])
    def test_code_whose_file_is_being_edited_or_gone_has_no_source_at_hand(self, now, tmp_path, monkeypatch):
        """At the end of a comparison in child processes, whose report asks for it."""
        name = f"edited_{len(now or '')}"
        file = tmp_path / f"{name}.py"
        file.write_text("class Mine: ...\n\n\ndef encoder(shape):\n    return (1 + 2)\n")
        monkeypatch.syspath_prepend(tmp_path)
        made = __import__(name)
        file.unlink() if now is None else file.write_text(now)
        assert parts.own_source(made.Mine) == parts.own_source(made.encoder) == ""

    def test_a_file_without_its_class_gets_a_hint(self, tmp_path, monkeypatch):
        (tmp_path / "mine.py").touch()
        monkeypatch.chdir(tmp_path)
        with pytest.raises(MocaError, match=r"unknown learner 'mine'; a class in mine.py is mine.NAME$"):
            LEARNERS.find("mine")

    def test_a_misspelt_class_gets_a_suggestion(self):
        with pytest.raises(MocaError, match=r"has no class or function 'Stong'; did you mean 'Strong'\?$"):
            LEARNERS.find(f"{__name__}.Stong")

    def test_what_no_path_leads_to(self):
        class Local(ER):
            """Inside a function."""

        assert path_of(Local) is None
        assert path_of(lambda: 1) is None

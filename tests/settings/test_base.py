"""The accepted ways to write settings, and what a mistake says."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from moca.errors import MocaError
from moca.learners.er import ER
from moca.parts import ENCODERS, LEARNERS, PERTURBATIONS
from moca.perturb.gaussian import Gaussian
from moca.perturb.none import Unmoved
from moca.perturb.wap import WAP
from moca.settings import HEADS, OPTIMISERS, SCHEDULES, Bench, Run, Seeds, by_name, validate
from moca.settings.base import Settings
from moca.settings.choice import options_of
from moca.settings.memory import Memory
from tests.settings.strategies import CHOICES, choice_of, runs, settings_of

often = settings(deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow])


def wap(**options):
    """Settings of WAP, as a run has them."""
    return options_of(WAP, "wap")(name="wap", **options)


def as_run(kind, value):
    """A run with this choice, and what is needed to make it a consistent one."""
    return getattr(validate(Run, {kind: value}), kind)


@often
@given(st.data())
def test_choices_survive_their_short_form(data):
    kind = data.draw(st.sampled_from(sorted(CHOICES)))
    first = data.draw(choice_of(kind))
    again = as_run(kind, str(first))
    assert again == first and type(again) is type(first)
    assert str(again) == str(first)


@often
@given(st.data())
def test_choices_survive_json(data):
    kind = data.draw(st.sampled_from(sorted(CHOICES)))
    first = data.draw(choice_of(kind))
    for by_alias in (True, False):
        again = as_run(kind, json.loads(first.model_dump_json(by_alias=by_alias)))
        assert again == first and type(again) is type(first)


@often
@given(settings_of(Memory).filter(lambda m: m.size), settings_of(Seeds))
def test_memory_and_seeds_survive_their_short_form(memory, seeds):
    run = validate(Run, {"memory": str(memory), "seed": str(seeds)})
    assert run.memory == memory and run.seed == seeds
    assert validate(Run, {"memory": memory.size}).memory == Memory(size=memory.size)


@often
@given(runs())
def test_runs_survive_json(run):
    for by_alias in (True, False):
        again = validate(Run, json.loads(run.model_dump_json(by_alias=by_alias)))
        assert again == run
        assert type(again.perturb) is type(run.perturb)


@often
@given(runs())
def test_runs_survive_the_command_line(run):
    """All options as text, as the command line gives them."""
    text = {}
    for name, value in run:
        if value is not None:
            text[name] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    assert validate(Run, text) == run


def test_the_short_form_shows_what_differs():
    assert str(wap()) == "wap"
    assert str(wap(lam=1.5, steps=2)) == "wap:lambda=1.5,steps=2"
    assert str(options_of(Gaussian)(name="gaussian", unit=False)) == "gaussian:unit=False"
    assert str(as_run("schedule", {"name": "steps", "at": (3, 5), "by": 0.5})) == "steps:at=3,5,by=0.5"
    assert str(Memory(size=50, per="class")) == "50:per=class"
    assert str(Seeds(seed=3, perturb=0)) == "3:perturb=0"


def test_spaces_do_not_matter():
    assert as_run("perturb", " wap : lambda = 1.5 , steps=2 ") == wap(lam=1.5, steps=2)
    assert as_run("perturb", "wap:") == wap()


def test_what_was_given_is_told_also_at_its_default():
    assert as_run("perturb", "wap:steps=1,lambda=1.5").as_given() == "wap:lambda=1.5,steps=1"
    assert as_run("perturb", "wap").as_given() == "wap"


@pytest.mark.parametrize("text", ["steps:at=35,45,by=0.5", "steps:by=0.5,at=35,45", "steps: at = 35 , 45 , by = 0.5"])
def test_a_value_without_a_name_belongs_to_the_option_before_it(text):
    steps = as_run("schedule", text)
    assert (steps.at, steps.by) == ((35, 45), 0.5)


def test_one_value_or_several():
    for text, at in {"35": (35,), "35,45": (35, 45), "35 45": (35, 45), "": ()}.items():
        assert as_run("schedule", f"steps:at={text}").at == at
    for value in (35, (35,), [35], "35"):
        assert as_run("schedule", {"name": "steps", "at": value}).at == (35,)
    for value, packed in {4: (4,), "1,2": (1, 2), "1 2": (1, 2), "none": ()}.items():
        assert validate(Bench, {"packed": value}).packed == packed
    assert validate(Bench, {"methods": "er+wap:lambda=1,steps=2"}).methods == ("er+wap:lambda=1,steps=2",), "one name"
    with pytest.raises(MocaError, match=r"packed = 3.5: must be a whole number"):
        validate(Bench, {"packed": 3.5})


def test_lambda_by_either_name():
    for spec in ("vt:lambda=0.5", "vt:lam=0.5", {"name": "vt", "lambda": 0.5}, {"name": "vt", "lam": "0.5"}):
        assert as_run("perturb", spec).lam == 0.5


@pytest.mark.parametrize("value", [None, "none", {}, {"name": "none"}])
def test_no_perturbation(value):
    assert as_run("perturb", value) == options_of(Unmoved, "none")(name="none")


def test_any_settings_can_be_printed():
    assert "digits" in str(Run())


def test_settings_cannot_change():
    with pytest.raises(ValidationError, match="frozen"):
        wap().steps = 2
    assert hash(wap(steps=2)) == hash(wap(steps=2))


@pytest.mark.parametrize("kind", [HEADS, OPTIMISERS, SCHEDULES])
def test_every_choice_has_one_line(kind):
    listed = by_name(kind)
    assert len(listed) == len(kind)
    for name, choice in listed.items():
        assert name and (choice.__doc__ or "").split("\n")[0].endswith("."), name
    assert all(f.description for cls in kind for n, f in cls.model_fields.items() if n != "name")


@pytest.mark.parametrize("kind", [LEARNERS, PERTURBATIONS, ENCODERS], ids=lambda kind: kind.name)
def test_every_part_has_one_line(kind):
    assert list(kind.lines()) == list(kind.built_in)
    for line in kind.lines().values():
        assert "\n" not in line and line.strip()
    classes = [options_of(kind.find(name), name) for name in kind.built_in]
    assert all(f.description for cls in classes for n, f in cls.model_fields.items() if n != "name")


MISTAKES = [
    # Unknown names: the nearest is named, or all of them.
    ({"perturb": "wapp"}, r"unknown perturbation 'wapp'; did you mean 'wap'\?"),
    ({"perturb": "WAP"}, r"unknown perturbation 'WAP'; did you mean 'wap'\?"),
    ({"perturb": "xyz"}, "unknown perturbation 'xyz'; known: add_new, doa_new, .*, wap$"),
    ({"perturb": ""}, "unknown perturbation ''; known: "),
    ({"learner": "der++"}, r"unknown learner 'der\+\+'; did you mean 'derpp'\?"),
    ({"learner": None}, "unknown learner 'none'; known: .*er_ace"),
    ({"model": "resnet"}, r"unknown model 'resnet'; did you mean 'resnet18'\?"),
    ({"head": "cosin"}, r"unknown head 'cosin'; did you mean 'cosine'\?"),
    ({"perturb": {"lambda": 2}}, "a perturbation needs its name: {'name': ..., 'option': value}"),
    ({"optimiser": "adamm"}, r"unknown optimiser 'adamm'; did you mean 'adam'\?"),
    ({"optimiser": None}, "unknown optimiser 'none'; known: adam, adamw, sgd"),
    ({"schedule": "cosin"}, r"unknown schedule 'cosin'; did you mean 'cosine'\?"),
    # Unknown keys.
    ({"epoch": 3}, r"unknown option 'epoch' of run; did you mean 'epochs'\?"),
    ({"perturb": "wap:lamda=1"}, r"unknown option 'lamda' of 'wap'; did you mean 'lambda'\?"),
    ({"perturb": {"name": "vmf", "kapa": 1}}, r"unknown option 'kapa' of 'vmf'; did you mean 'kappa'\?"),
    ({"perturb": "wap:kappa=1"}, "unknown option 'kappa' of 'wap'; "),
    ({"learner": "er:alpha=1"}, "unknown option 'alpha' of 'er'"),
    ({"learner": "er:adjust=much"}, "learner.adjust = 'much': must be a number or 'auto'"),
    ({"learner": "finetune:passes=separate"}, "unknown option 'passes' of 'finetune'; known: adjust"),
    ({"perturb": "none:lambda=1"}, "unknown option 'lambda' of 'none'; it has none"),
    ({"model": "mlp:widht=3"}, r"unknown option 'widht' of 'mlp'; did you mean 'width'\?"),
    ({"optimiser": "sgd:momentun=0.9"}, r"unknown option 'momentun' of 'sgd'; did you mean 'momentum'\?"),
    ({"optimiser": "adam:lr=0.1"}, r"unknown option 'lr' of 'adam'; it is a setting of its own: lr=\.\.\.$"),
    ({"learner": "derpp:buffer_size=200"}, r"'buffer_size' of 'derpp'; it is a setting of its own: memory=\.\.\.$"),
    ({"schedule": "constant:at=3"}, "unknown option 'at' of 'constant'"),
    ({"lr_milestones": "35,45"}, "unknown option 'lr_milestones' of run"),
    ({"memory": "200:par=class"}, r"unknown option 'par' of memory; did you mean 'per'\?"),
    ({"seed": "1:inti=2"}, r"unknown option 'inti' of seeds; did you mean 'init'\?"),
    # Lambda.
    ({"perturb": "wap:lambda=-1"}, "perturb.lambda = '-1': must be 0 or more"),
    ({"perturb": "gaussian:lambda=nan"}, "perturb.lambda = 'nan': .*finite"),
    ({"perturb": "gaussian:lambda=inf"}, "perturb.lambda = 'inf': .*finite"),
    ({"perturb": {"name": "vt", "lambda": float("nan")}}, "perturb.lambda = nan: .*finite"),
    ({"perturb": {"name": "vt", "lam": float("-inf")}}, "perturb.lam.* = -inf: "),
    ({"perturb": "vt:lambda=big"}, "perturb.lambda = 'big': "),
    ({"perturb": "vt:lambda="}, "perturb.lambda = '': "),
    # Angles.
    ({"perturb": "wap:fixed_angle=10,angle_cap=20"}, "fixed_angle and angle_cap exclude each other"),
    ({"perturb": "wap:fixed_angle=0"}, "perturb.fixed_angle = '0': must be more than 0"),
    ({"perturb": "wap:angle_cap=180"}, "perturb.angle_cap = '180': must be less than 180"),
    # Options of single perturbations.
    ({"perturb": "vmf:kappa=-1"}, "perturb.kappa"),
    ({"perturb": "doa_old:rate=1"}, "perturb.rate"),
    ({"perturb": "vt:momentum=1"}, "perturb.momentum"),
    ({"perturb": "vt:center=median"}, "perturb.center = 'median': .*'class', 'batch' or 'classifier'"),
    ({"perturb": "wap:steps=0"}, "perturb.steps"),
    ({"perturb": "wap:steps=1.5"}, "perturb.steps"),
    ({"perturb": "wap:radius=0"}, "perturb.radius"),
    # What does not go together.
    ({"memory": 0}, "'er' replays from memory, so memory must be at least 1"),
    ({"memory": "0:per=class", "learner": "derpp"}, "'derpp' replays from memory"),
    ({"learner": "joint", "perturb": "wap"}, "'joint' cannot take 'wap': it replays nothing, so there is nothing"),
    ({"learner": "finetune", "perturb": "vt"}, "'finetune' cannot take 'vt': it replays nothing"),
    ({"learner": "icarl", "perturb": "vt"}, "'icarl' cannot take 'vt': .*use perturb=none or another learner"),
    ({"learner": "er+wap"}, "learner = 'er.wap': give two settings, learner=er and perturb=wap"),
    ({"learner": "derpp", "bn_passes": "official"}, "bn_passes=official is not available for derpp with none"),
    ({"learner": "icarl", "bn_passes": "official"}, "bn_passes=official is not available for icarl with none"),
    # The short form.
    ({"perturb": "wap:steps"}, "expected option=value after ':', found 'steps'"),
    ({"perturb": "wap:steps=1,steps=2"}, "'steps' is given twice"),
    ({"perturb": "wap:name=vt"}, "'name' is given twice"),
    # Nonsense.
    ({"perturb": "wap\nvt"}, r"unknown perturbation 'wap\\nvt'"),
    ({"perturb": "wap:ste\nps=1"}, r"unknown option 'ste\\nps'"),
    ({"perturb": "wap:ste\nps"}, r"found 'ste\\nps'"),
    ({"perturb": "wap:\na=1,\na=1,b\nb=2,b\nb=2"}, r"'a' is given twice"),
    ({"perturb": 5}, "a perturbation is written as name:option=value or as a mapping, or .*; 5 is none of these"),
    ({"perturb": ["wap", "vt"]}, "several values are a list, for moca.compare"),
    ({"perturb": ("wap", "vt")}, "several values are a list, for moca.compare"),
    ({"learner": "er,derpp"}, "unknown learner 'er,derpp'; moca compare takes several values, separated by"),
    ({"perturb": "wap vt:lambda=1"}, "unknown perturbation 'wap vt'; moca compare takes several values, separated by"),
    ({"optimiser": 3}, "optimiser is written as name:option=value or as a mapping, not as 3"),
    ({"perturb": b"wap"}, "a perturbation is written as"),
    ({"perturb": {"name": []}}, "a perturbation needs its name"),
    # Parts of another kind.
    ({"learner": wap()}, "'wap' is no learner"),
    ({"learner": WAP}, "'wap' is no learner"),
    ({"learner": WAP()}, "'wap' is no learner"),
    ({"learner": "moca.perturb.wap.WAP"}, "'moca.perturb.wap.WAP' is no learner"),
    ({"learner": "os.getcwd"}, "'os.getcwd' is no learner"),
    ({"perturb": ER}, "'er' is no perturbation"),
    ({"perturb": ER()}, "'er' is no perturbation"),
    ({"perturb": len}, "'builtins.len' is no perturbation"),
    ({"model": ER}, "'er' is no model"),
    ({"model": WAP()}, "'wap' is no model"),
    # Dotted paths.
    ({"learner": "no_such_package.Mine"}, "learner 'no_such_package.Mine' cannot be loaded: there is no such module"),
    ({"perturb": "os.nothing"}, "perturbation 'os.nothing' cannot be loaded: module 'os' has no class or function"),
    ({"model": "os.sep"}, "model 'os.sep' cannot be loaded: module 'os' has no class or function 'sep'"),
    ({"learner": "./my/parts.Mine"}, "learner './my/parts.Mine' is written as a dotted path: my.parts.Mine"),
    ({"learner": "my/parts.py:Mine:a=1"}, "'my/parts.py:Mine:a=1' is written as a dotted path: my.parts.Mine:a=1"),
    ({"learner": ".er"}, "learner '.er' cannot be loaded"),
    ({"learner": "er."}, "learner 'er.' cannot be loaded"),
    ({"memory": -1}, "memory.size = '-1': must be 0 or more"),
    ({"memory": "many"}, "memory.size = 'many': "),
    ({"memory": 1.5}, "memory.size = '1.5': give a number of samples"),
    ({"seed": 1.5}, "seed = '1.5': must be a whole number"),
    ({"seed": True}, "seed = 'True': must be a whole number"),
    ({"epochs": True}, "epochs = 'true': must be a whole number"),
    ({"lr": False}, "lr = 'false': must be a number"),
    ({"tasks": True}, "tasks = 'true': must be a whole number"),
    ({"memory": {"size": True}}, "memory.size = 'true': "),
    ({"perturb": {"name": "wap", "lambda": True}}, "perturb.lambda = 'true': must be a number"),
    ({"learner": {"name": "er", "adjust": True}}, "learner.adjust = 'true': must be a number or 'auto'"),
    ({"memory": None}, "memory = None: "),
    ({"memory": "10:per=klass"}, "memory.per = 'klass': .*'total', 'class' or 'bytes'"),
    ({"tasks": 0}, "tasks = 0: must be 1 or more$"),
    ({"tasks": "two"}, "tasks = 'two': must be a whole number$"),
    ({"epochs": -1}, "epochs = -1: "),
    ({"epochs": 10**7}, "epochs = 10000000: "),
    ({"tasks": "5,0,5"}, "tasks = '0': must be 1 or more"),
    ({"batch": 0}, "batch = 0: "),
    ({"replay_batch": 0}, "replay_batch = 0: "),
    ({"lr": 0}, "lr = 0: "),
    ({"lr": "nan"}, "lr = 'nan': "),
    ({"lr": 1e39}, r"lr = 1e\+39: must be 1e\+30 or less$"),
    ({"optimiser": "sgd:weight_decay=1e39"}, r"optimiser.weight_decay = '1e39': "),
    ({"optimiser": "adam:weight_decay=-1"}, r"optimiser.weight_decay = '-1': "),
    ({"optimiser": "adam:beta1=1"}, r"optimiser.beta1 = '1': must be less than 1"),
    ({"optimiser": "adamw:eps=0"}, r"optimiser.eps = '0': must be more than 0"),
    ({"optimiser": "sgd:anew=perhaps"}, "optimiser.anew = 'perhaps': "),
    ({"schedule": "steps:at=3,by=0"}, "schedule.by = '0': must be more than 0"),
    ({"schedule": "steps:at=3,by=2"}, "schedule.by = '2': must be 1 or less"),
    ({"schedule": "steps:at=-3"}, "schedule.at = '-3': must be 0 or more"),
    ({"schedule": "steps:at=x"}, "schedule.at = 'x': "),
    ({"schedule": "steps:by=0.1,0.2"}, "schedule.by = '0.1,0.2': must be a number; moca compare takes several"),
    ({"schedule": "cosine:final=2"}, "schedule.final = '2': must be 1 or less"),
    ({"perturb": "vmf:kappa=1e300"}, "perturb.kappa = '1e300': "),
    ({"model": "mlp:features=1"}, "model.features = '1': "),
    ({"optimiser": "sgd:momentum=1"}, "optimiser.momentum = '1': "),
    ({"validation": 1.0}, "validation = 1.0: "),
    ({"seed": -1}, "seed = '-1': "),
    ({"class_order": "0,1,x"}, "class_order"),
    ({"class_order": 3}, "class_order"),
    ({"learner": "er:passes=both"}, "learner.passes = 'both': .*'separate' or 'concatenated'"),
    ({"learner": "er_ace:mask=all"}, "learner.mask = 'all': .*'unseen' or 'official'"),
    ({"learner": "derpp:alpha=-1"}, "learner.alpha = '-1': must be 0 or more"),
    ({"short_batch": "drop"}, "short_batch = 'drop': .*'perturb' or 'skip'"),
    ({"bn_passes": "dirty"}, "bn_passes = 'dirty': use replay, clean, official, or the passes in order, made of n, b "),
    ({"bn_passes": ""}, "bn_passes = '': use replay, clean"),
    ({"bn_passes": "n\n"}, r"bn_passes = 'n\\n': use replay, clean"),
    ({"bn_passes": "n1b"}, "bn_passes = 'n1b': use replay, clean"),
    ({"bn_passes": "nbb", "learner": "finetune"}, "bn_passes = 'nbb': use replay, clean"),
    ({"bn_passes": "nbb", "learner": "er:passes=concatenated"}, "bn_passes=nbb means separate passes"),
    ({"bn_passes": "official", "learner": "er:passes=concatenated"}, "bn_passes=official means separate"),
    ({"augment": "perhaps"}, "augment = 'perhaps': "),
    ({"data": " "}, "data is empty; give the name of a data set"),
    ({"threads": 0}, "threads = 0: "),
]  # fmt: skip


@pytest.mark.parametrize(("values", "message"), MISTAKES, ids=[str(v) for v, _ in MISTAKES])
def test_a_mistake_is_one_line(values, message):
    with pytest.raises(MocaError, match=message) as caught:
        validate(Run, values)
    assert "\n" not in str(caught.value)


def test_what_looks_like_a_mistake_and_is_none():
    assert validate(Run, {"memory": 0, "learner": "finetune"}).memory.size == 0
    assert validate(Run, {"memory": 0, "learner": "joint"}).learner.name == "joint"
    assert validate(Run, {"perturb": "vmf:kappa=0,lambda=0"}).perturb.kappa == 0
    assert validate(Run, {"model": None}).model is None
    assert validate(Run, {"class_order": "2 0,1", "schedule": "steps:at=35,45"}).class_order == (2, 0, 1)
    assert validate(Run, {"schedule": {"name": "steps", "at": [35, 45]}}).schedule.at == (35, 45)
    assert validate(Run, {"bn_passes": "n1b", "learner": "derpp"}).bn_passes == "n1b"
    assert validate(Run, {"augment": False, "perturb": {"name": "gaussian", "unit": False}}).perturb.unit is False
    assert validate(Run, {"bn_passes": "clean", "learner": "er:passes=concatenated"}).learner.passes == "concatenated"
    assert validate(Run, {"data": 5}).data.name == "int", "what is no data set is told where data are read"


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
nonsense = (
    st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
    | st.text().map("wap:".__add__)
    | st.fixed_dictionaries({"name": st.sampled_from(["wap", "vt", "er", "mlp"]), "lambda": plain})
)


@often
@given(st.sampled_from(sorted(Run.model_fields)), nonsense)
def test_nonsense_is_accepted_or_refused_in_one_line(name, value):
    try:
        validate(Run, {name: value})
    except MocaError as error:
        assert "\n" not in str(error)


def test_an_option_may_be_called_like_a_type():
    class Strong(Settings):
        strength: float = 1.0

    with pytest.raises(MocaError, match=r"^strength = 'much': must be a number$"):
        validate(Strong, {"strength": "much"})

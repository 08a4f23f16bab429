"""Parts of a user's own that raise: a comparison loses their runs only, and each is told where it went wrong."""

import csv
import re
import sys

import pytest
from torch import nn
from torch.nn.functional import cross_entropy

import moca
from moca import MocaError, cli, user_tracebacks
from moca.engine.learning import Learning
from moca.engine.listing import listed

SMALL = {
    "model": "mlp:width=8,depth=1,features=4",
    "memory": 20,
    "tasks": 2,
    "batch": 200,
    "epochs": 1,
    "device": "cpu",
    "threads": 1,
}
MENDED, BROKEN = "return new.y", "return new.y[:3]"
MODULE = f'''
import moca
from torch.nn.functional import cross_entropy

class Sliced(moca.Learner):
    """Fails in the second task."""

    def losses(self, new, *replays):
        return {{"new": cross_entropy(new.logits, self.labels(new))}}

    def labels(self, new):
        if self.first_task:
            return new.y
        {BROKEN}
'''
LINE = "ValueError: Expected input batch_size (200) to match target batch_size (3). (mine.py:9, in losses)"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module with a learner that fails, in the current folder; mended by writing it anew."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MODULE)
    yield tmp_path / "mine.py"
    sys.modules.pop("mine", None)


def options(**more):
    given = SMALL | more
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", *str(value).split())]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_other_runs_go_on_and_so_does_the_mended_one(mine, tmp_path, jobs):
    asked = SMALL | {"learner": ["er", "mine.Sliced"], "seeds": 1, "out": tmp_path / "out"}
    if jobs == 2:  # one process fewer
        moca.compare(**asked | {"learner": "er"})
    made = moca.compare(**asked, jobs=jobs)
    assert [r.status for r in made.results] == ["finished", "failed"]
    kept = tmp_path / "out" / "mine.Sliced-s0" / "traceback.txt"
    assert made.mistakes[0] == f"mine.Sliced-s0: {LINE}; the traceback is in {kept}"
    assert "in step" in kept.read_text()
    assert "in losses" in kept.read_text()
    with (tmp_path / "out" / "runs.csv").open(newline="") as file:
        assert [r["status"] for r in csv.DictReader(file)] == ["finished", "failed"]

    mine.write_text(MODULE.replace(BROKEN, MENDED))
    sys.modules.pop("mine")
    again = moca.compare(**asked)
    assert [r.status for r in again.results] == ["finished"] * 2
    assert not kept.exists()


def test_on_the_command_line(mine, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["compare", *options(learner="er mine.Sliced", seeds=1, out="out")])
    assert end.value.code == 1
    said = capsys.readouterr()
    assert re.search(r"mine\.Sliced +0 of 1 +-", said.out)
    assert said.err.splitlines()[-1] == (
        f"moca: mine.Sliced-s0: {LINE}; the traceback is in out/mine.Sliced-s0/traceback.txt"
    )
    assert "Traceback" not in said.err
    assert re.search("failed</span> . ValueError: Expected", (mine.parent / "out" / "report.html").read_text())


def test_a_run_alone_shows_the_traceback_from_the_users_code_on(mine, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["run", *options(learner="mine.Sliced", out="out")])
    assert end.value.code == 1
    said = capsys.readouterr().err
    *_, last = said.splitlines()
    assert last == f"moca: {LINE}; the traceback is in out/traceback.txt"
    assert said.count(LINE) == 1
    shown = said[said.index("Traceback") :]
    assert shown.splitlines()[1].endswith('mine.py", line 9, in losses')
    assert "moca/engine" not in shown
    mine.write_text(MODULE.replace(BROKEN, MENDED))
    sys.modules.pop("mine")
    assert moca.resume("out").status == "finished"


def test_from_python_a_run_alone_raises_what_was_raised(mine, tmp_path):
    with pytest.raises(ValueError, match="Expected input batch_size") as raised:
        moca.run(learner="mine.Sliced", out=tmp_path / "out", **SMALL)
    assert raised.value.__notes__ == [f"moca: {LINE}; the traceback is in {tmp_path / 'out' / 'traceback.txt'}"]


def fail(*args, **kwargs):
    raise LookupError("nothing there\nat all")


class Plain(moca.Learner):
    def losses(self, new, *replays):
        return {"new": cross_entropy(new.logits, new.y)}


def own(base, **methods):
    return type("Mine", (base,), methods)


class Remembering(Plain):
    """The usual mistake: a graph of an earlier step."""

    def prepare(self):
        self.mean = 0

    def losses(self, new, *replays):
        self.mean = new.features.mean() + self.mean
        return {"mean": self.mean}


class Elsewhere(Plain):
    """The same, where no attribute tells which tensor it is."""

    def losses(self, new, *replays, before=[]):  # noqa: B006
        before.append(new.features.mean())
        return {"mean": sum(before)}


class Encoder(nn.Module):
    def forward(self, x):
        return fail() if self.training else x.flatten(1)[:, :4]


VERBS = ("prepare", "begin_task", "losses", "end_task", "predict")
SAID = r"LookupError: nothing there \(.*test_failing_parts.py:\d+, in fail\); the traceback is in "


@pytest.mark.parametrize(
    ("setting", "broken", "sound", "said"),
    [
        *(("learner", own(Plain, **{verb: fail}), "er", SAID) for verb in VERBS),
        ("learner", own(Plain, losses=fail)(), "er", SAID),
        ("learner", Remembering, "er", r"'Remembering' keeps 'mean' with its graph from the step before; keep .detach"),
        ("learner", Elsewhere, "er", "RuntimeError: Trying to backward through the graph a second time"),
        ("perturb", own(moca.Perturbation, direction=fail), "vt", SAID),
        ("model", fail, "mlp", SAID),
        ("model", Encoder(), "mlp", SAID),
    ],
)
def test_whatever_fails_wherever_it_fails(setting, broken, sound, said, tmp_path):
    made = moca.compare(**SMALL | {setting: [broken, sound]}, out=tmp_path / "out")
    assert [r.status for r in made.results] == ["failed", "finished"]
    (mistake,) = made.mistakes
    assert re.search(said, mistake)
    assert "\n" not in mistake


@pytest.mark.parametrize("verb", ["begin", "step", "end"])
def test_a_watcher_that_fails(verb, tmp_path):
    class Once(moca.Watcher):
        def __init__(self):
            self.failed = False

    def once(self, about):
        if not self.failed:
            self.failed = True
            fail()

    setattr(Once, verb, once)
    made = moca.compare(**SMALL, watch=Once(), seeds=2, out=tmp_path / "out")
    assert [r.status for r in made.results] == ["failed", "finished"]
    assert re.match(f"er-s0: {SAID}", made.mistakes[0])


def test_where_all_runs_fail_there_is_nothing_to_compare(tmp_path):
    with pytest.raises(MocaError, match=rf"^Mine-s0: {SAID}.* \(all other runs failed too\)$"):
        moca.compare(**SMALL, learner=own(Plain, losses=fail), seeds=2, out=tmp_path / "out")
    assert not (tmp_path / "out" / "runs.csv").exists()


def test_a_defect_of_ours_is_raised_where_no_code_of_the_users_takes_part(tmp_path, monkeypatch):
    monkeypatch.setattr(Learning, "step", fail)
    with pytest.raises(LookupError) as raised:
        moca.compare(**SMALL, learner=["er", "derpp"], out=tmp_path / "out")
    assert user_tracebacks.noted(raised.value) is None


def defined(module, code):
    """The functions of a module of that name."""
    names = {"__name__": module}
    exec(compile(code, f"{module}.py", "exec"), names)
    return names


def test_the_line_named_is_one_of_the_package_that_was_called():
    library = defined("einops", "def rearrange(): raise KeyError('b h w')")
    helper = defined("mine.helpers", "def helped(inner):\n    inner()")
    user = defined("mine.learner", "def losses(helped, inner): helped(inner)")
    engine = defined("moca.engine.learning", "def step(losses, *given): losses(*given)")
    with pytest.raises(KeyError) as raised:
        engine["step"](user["losses"], helper["helped"], library["rearrange"])
    assert user_tracebacks.in_a_line(raised.value) == "KeyError: 'b h w' (mine.helpers.py:2, in helped)"
    assert user_tracebacks.from_theirs_on(raised.value).splitlines()[1] == '  File "mine.learner.py", line 1, in losses'


def test_an_exception_that_another_took_the_place_of():
    user = defined("mine", "def losses(): raise KeyError('b h w')")
    code = "def step(losses):\n    try: losses()\n    finally: raise RuntimeError('the recording was invalidated')"
    engine = defined("moca.engine.capture", code)
    with pytest.raises(RuntimeError) as raised:
        engine["step"](user["losses"])
    assert user_tracebacks.in_a_line(raised.value) == "KeyError: 'b h w' (mine.py:1, in losses)"


def test_without_a_line_of_the_users_it_is_the_innermost():
    engine = defined("moca.engine.learning", "def step():\n    raise KeyError('b h w')")
    with pytest.raises(KeyError) as raised:
        engine["step"]()
    assert user_tracebacks.in_a_line(raised.value) == "KeyError: 'b h w' (moca.engine.learning.py:2, in step)"
    shown = user_tracebacks.from_theirs_on(raised.value).splitlines()
    assert shown == [shown[0], '  File "moca.engine.learning.py", line 2, in step', "KeyError: 'b h w'"]


def test_what_a_part_gave_wrongly_is_a_failure_to_whoever_lists_runs(tmp_path, monkeypatch):
    """Not a run that was stopped, which only had to be resumed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import moca\n\n\nclass Half(moca.Perturbation):\n"
        "    def direction(self, replay, new):\n        return replay.features[:, :1]\n"
    )
    with pytest.raises(MocaError, match="direction of 'Half' must return a tensor of"):
        moca.run(**SMALL, perturb="mine.Half", out=tmp_path / "half")
    sys.modules.pop("mine", None)
    (run,) = listed(tmp_path)
    assert (run.state, run.learned) == ("failed", 1)
    assert "direction of 'Half' must return a tensor" in (tmp_path / "half" / "traceback.txt").read_text()

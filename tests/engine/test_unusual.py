"""What distinguishes the runs of a list."""

from moca.engine.listing import listed
from moca.engine.unusual import told_apart
from tests.report.made_results import result, written


def test_runs_of_one_method_are_told_apart_by_what_is_unusual(tmp_path):
    one = {"memory": 30, "epochs": 20, "perturb": "wap:lambda=0.5", "schedule": "constant"}
    for name, other in {
        "a": {},
        "b": {"seed": 1, "threads": 2},
        "c": {"tasks": (4, 3, 3), "memory": "30:per=class"},
        "d_epochs=5": {"epochs": 5, "perturb": "wap:lambda=2"},
        "e": {"schedule": "steps:at=3,4"},
        "f": {"perturb": "none", "lr": 7},
        "g": {"validation": 0.1, "tasks": (1, 9)},
        "h": {"learner": "derpp", "lr": 9, "batch": 1},
        "i_memory=50": {"memory": 50},
        "j": {"memory": 50},
    }.items():
        written(result(tmp_path, 0.5, **one | {"tasks": (5, 5)} | other), tmp_path / name)
    runs = list(listed(tmp_path))
    assert dict(zip([run.folder.name for run in runs], told_apart(runs), strict=True)) == {
        "a": "",
        "b": "",
        "c": "memory.per=class tasks=4,3,3",
        "d_epochs=5": "lambda=2.0",
        "e": "schedule=steps",
        "f": "",
        "g": "tasks=1,9",
        "h": "batch=1",
        "i_memory=50": "",
        "j": "memory=50",
    }


def test_a_value_that_is_not_that_of_most_runs_is_usual_for_none(tmp_path):
    for name, other in {
        "a": {"lr": 0.01, "epochs": 2},
        "b": {"lr": 0.1, "epochs": 4},
        "c": {"lr": 0.03, "epochs": 4},
        "d": {"perturb": "vt", "epochs": 2},
    }.items():
        written(result(tmp_path, 0.5, **other), tmp_path / name)
    assert told_apart(list(listed(tmp_path))) == ["epochs=2 lr=0.01", "epochs=4 lr=0.1", "epochs=4 lr=0.03", "epochs=2"]

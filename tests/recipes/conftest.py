"""A paper of two cells on the digits, whose runs take a moment."""

from dataclasses import replace

import pytest

from moca.recipes import cells, experiment, selection

TINY = {
    "model": "mlp:width=8,depth=1,features=4",
    "memory": "20",
    "tasks": "5,5",
    "batch": 200,
    "epochs": 1,
    "threads": 1,
}


@pytest.fixture
def tiny_paper(monkeypatch):
    """Three numbers of two experiments, one that cannot be run, and how they are run."""
    plain = next(cell for cell in cells.cells() if cell.id == "t1-offline-none")
    plain = replace(plain, data="digits", memory="", value=1.0, note="made up")
    told = (
        replace(plain, id="plain"),
        replace(plain, id="moved", perturb="gaussian", lam="1.0", value=99.0, status="quoted"),
        replace(plain, id="curve", exhibit="fig10", metric="accuracy_after_task_1"),
        replace(plain, id="angle", exhibit="fig1", metric="angle_old"),
    )
    rules = ({"run": TINY, "why": "it is quick"}, {"where": {"metric": "angle_*"}, "waits": "a ruler", "why": "none"})
    for module in (cells, selection):
        monkeypatch.setattr(module, "cells", lambda: told)
    monkeypatch.setattr(experiment, "rules", lambda: rules)
    return told

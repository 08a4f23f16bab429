"""Prototype replay in plain loops."""

from tests.engine.twins import pass_


class Twin(pass_.Twin):
    settings_for_tests = {
        "learner": "proxy:temperature=1,prototypes=1,distillation=0.1",
        "lr": 0.001,
        "optimiser": "sgd",
    }

"""Prototype replay in plain loops."""

from tests.engine.twins import pass_


class Twin(pass_.Twin):
    """Its options differ."""

"""Joint training in plain loops."""

from tests.engine.twins import finetune


class Twin(finetune.Twin):
    all_at_once = True

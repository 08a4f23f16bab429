"""Joint training: one network trained on all tasks at once, the upper bound."""

from moca.learners.finetune import Finetune


class Joint(Finetune):
    """The loss of finetuning, all tasks at once."""

    sees_all_tasks = True
    recipes = {
        "offline": {"schedule": "constant"},
        "cifar100/offline": {"lr": 0.03},
        "tinyimagenet/offline": {"lr": 0.03},
    }

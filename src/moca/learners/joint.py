"""Joint training: one network trained on all tasks at once, the upper bound.

Paper: Buzzega et al., NeurIPS 2020, arXiv 2004.07211 (JOINT, the upper bound of its tables).
"""

from moca.learners.finetune import Finetune


class Joint(Finetune):
    """Finetuning on all tasks at once."""

    sees_all_tasks = True
    recipes = {
        "offline": {"schedule": "constant"},
        "cifar100/offline": {"lr": 0.03},
        "tinyimagenet/offline": {"lr": 0.03},
    }

"""The words of other continual-learning libraries for our options, learners and data sets."""

import re
from collections.abc import Collection

OPTIONS = {
    "buffer_size": "memory", "mem_size": "memory", "minibatch_size": "replay_batch", "batch_size_mem": "replay_batch",
    "batch_size": "batch", "train_mb_size": "batch", "n_epochs": "epochs", "train_epochs": "epochs",
    "learning_rate": "lr", "n_tasks": "tasks", "n_experiences": "tasks", "fixed_class_order": "class_order",
    "dataset": "data", "benchmark": "data", "strategy": "learner", "backbone": "model", "optimizer": "optimiser",
    "lr_scheduler": "schedule", "scenario": "arrival", "eval_every": "evaluate_every", "name": "out",
}  # fmt: skip
"""Options by their names elsewhere."""

MEANT = {
    "joint": "is a learner here: learner=joint",
    "permute_classes": "is an order of classes here: class_order=random",
    "optim_wd": "is an option of the optimiser here: optimiser=sgd:weight_decay=1e-4",
    "optim_mom": "is an option of the optimiser here: optimiser=sgd:momentum=0.9",
    "method": "is called learner= here; for several, each with its perturbation, use methods= of moca.compare",
}
"""What to do in place of options that are none here, as the end of a sentence."""

_LEARNERS = {
    "sgd": "finetune", "naive": "finetune", "finetuning": "finetune", "replay": "er", "experiencereplay": "er",
    "cumulative": "joint", "jointtraining": "joint", "ewcon": "ewc", "onlineewc": "ewc",
}  # fmt: skip
_DATA = {"fmnist": "fashion_mnist", "fashionmnist": "fashion_mnist", "tinyimg": "tinyimagenet"}


def learner_meant(name: str) -> str:
    """What to write for a learner of that name; empty if it is not known."""
    ours = _LEARNERS.get(_plain(name))
    return f"it is called learner={ours} here" if ours else ""


def data_meant(name: str, known: Collection[str]) -> str:
    """What to write for a data set of that name, such as seq-cifar10 or FMNIST; empty if it is not known."""
    found = re.fullmatch("(seq|split|permuted|perm|rotated|rot)?(.+)", _plain(name))
    if found is None or (ours := _DATA.get(found[2], found[2])) not in known:
        return ""
    if found[1] is None:
        return f"it is data={ours} here"
    if found[1] in ("seq", "split"):
        return f"it is data={ours} here, which tasks= splits"
    return f"from {ours}, moca.domain_incremental makes it in Python, of one data set for each task"


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())

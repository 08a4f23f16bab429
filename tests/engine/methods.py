"""Every learner and every perturbation that there is, found by itself: a new file is tested without a word here."""

from moca.parts import LEARNERS, PERTURBATIONS

REPLAYING = [name for name in LEARNERS.built_in if LEARNERS.find(name).draws]
PERTURBABLE = [name for name in LEARNERS.built_in if not LEARNERS.find(name).refuses]
MOVING = [name for name in PERTURBATIONS.built_in if PERTURBATIONS.find(name).moves]

PLAIN = {name: {"learner": name} for name in LEARNERS.built_in}
MOVED = {f"er+{name}": {"learner": "er", "perturb": name} for name in MOVING}
BOTH = {
    f"{learner}+{perturb}": {"learner": learner, "perturb": perturb}
    for learner, perturb in zip(PERTURBABLE, ["wap", "vt", "gaussian", "doa_new"] * len(PERTURBABLE), strict=False)
    if learner != "er"
}
EVERY = PLAIN | MOVED | BOTH
"""Each learner alone, each perturbation with er, and each other learner that takes one with one of them."""

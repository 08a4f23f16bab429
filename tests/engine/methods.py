"""Every learner and every perturbation that there is, found by itself: a new file is tested without a word here."""

from moca.parts import LEARNERS, PERTURBATIONS
from tests.engine.twin import twin_of

REPLAYING = [name for name in LEARNERS.built_in if LEARNERS.find(name).draws]
PERTURBABLE = [name for name in LEARNERS.built_in if not LEARNERS.find(name).refuses]
MOVING = [name for name in PERTURBATIONS.built_in if PERTURBATIONS.find(name).moves]

PLAIN = {name: {"learner": name, **getattr(twin_of(name), "settings_for_tests", {})} for name in LEARNERS.built_in}
MOVED = {f"er+{name}": {"learner": "er", "perturb": name} for name in MOVING}


def _fitting(learner: str, turn: int) -> str:
    """One of the perturbations that the learner takes, another for the next."""
    images = LEARNERS.find(learner).replays_images
    fit = [name for name in ("wap", "vt", "gaussian", "doa_new") if images or not PERTURBATIONS.find(name).needs_images]
    return fit[turn % len(fit)]


PAIRS = [(name, _fitting(name, turn)) for turn, name in enumerate(PERTURBABLE) if name != "er"]
BOTH = {f"{learner}+{perturb}": {**PLAIN[learner], "perturb": perturb} for learner, perturb in PAIRS}
EVERY = PLAIN | MOVED | BOTH
"""Each learner alone, each perturbation with er, and each other learner that takes one with one of them."""
MOST = {name: method for name, method in EVERY.items() if name not in PERTURBABLE}
"""Without those alone that are here with a perturbation too, for what holds of a method if it holds with more to it."""

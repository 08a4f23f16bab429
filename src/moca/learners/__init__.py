"""Methods of continual learning: every file but `base` is one of them and bears its name."""

from moca.learners.base import Learner, Losses, OfficialPasses

__all__ = ["Learner", "Losses", "OfficialPasses"]

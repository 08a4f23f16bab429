"""Continual-learning methods: every file except `base` is one method and has its name."""

from moca.learners.base import Learner, Losses, OfficialPasses

__all__ = ["Learner", "Losses", "OfficialPasses"]

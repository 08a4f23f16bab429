"""Metrics and analyses of a run."""

from moca.measures.accuracy import Summary, accuracy_over_tasks, summarise

__all__ = ["Summary", "accuracy_over_tasks", "summarise"]

"""Experiment trackers: every file but `base` is one, named after it. None is active unless requested."""

from moca.trackers.base import About, Point, Tracker

__all__ = ["About", "Point", "Tracker"]

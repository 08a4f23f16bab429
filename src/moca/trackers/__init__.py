"""Programs that keep runs and show them: every file but `base` is one and bears its name. None is on by itself."""

from moca.trackers.base import About, Point, Tracker

__all__ = ["About", "Point", "Tracker"]

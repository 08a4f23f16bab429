"""Recordings made while a run trains, for analyses that are impossible afterwards; one file each."""

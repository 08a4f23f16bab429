"""What can be written down while a run trains, for analyses that no run allows afterwards: a file each."""

"""The loop: steps, runs, comparisons, checkpoints and evaluation."""

"""Training: steps, runs, comparisons, checkpoints and evaluation."""

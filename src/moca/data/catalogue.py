"""The data sets that moca knows by name."""

DATASETS = {"digits": "scikit-learn's handwritten digits, 10 classes, 1,797 images of 8x8 (embedded)"}
"""Each data set's name and its one-line description."""

"""moca: continual learning by modeling intra-class variation."""

__version__ = "0.1.0"

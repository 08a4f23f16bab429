"""Encoders: every file except `base` defines one, which is named after the file."""

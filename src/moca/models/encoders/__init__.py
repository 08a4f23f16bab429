"""Encoders: every file but `base` is one of them and bears its name."""

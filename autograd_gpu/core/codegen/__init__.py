"""Generates functions and node classes from an op's declaration."""

"""Reductions over dimensions, and running ones."""

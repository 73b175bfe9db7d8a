"""Optimizer steps on arrays: the update formulas, and their application to many parameters."""

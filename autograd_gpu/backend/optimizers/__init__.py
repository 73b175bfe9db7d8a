"""Optimizer steps on arrays: the formulas, and how they run over many parameters."""

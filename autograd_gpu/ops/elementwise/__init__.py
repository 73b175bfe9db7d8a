"""Elementwise functions of one, two or three operands."""

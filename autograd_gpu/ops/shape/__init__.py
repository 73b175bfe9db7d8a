"""Tensors of other shapes: views, broadcasting, joining, splitting, moving elements."""

"""Functions of one, two or three operands, element by element."""

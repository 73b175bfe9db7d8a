"""A tour in four chapters, each a module with a title and a function `run`: digits, terrain, derivatives, memory.

`run(settings, advance)` returns a Story: figures as plain values, and the blocks that show them. `tour.py` runs the
chapters, `page.py` writes the report and `terminal.py` prints the same figures.
"""

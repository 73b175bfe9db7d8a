"""Second derivatives by local terms: one run of the function on a tape, then sweeps over its calls.

A call of an op contributes to a second derivative only by its own second derivative, along the tangents that reach it.
`plan.py` says which calls have a second derivative and how far tangents and adjoints are needed; `push.py` carries the
contributions forward with the tangents, `pull.py` contracts them with adjoints.
"""

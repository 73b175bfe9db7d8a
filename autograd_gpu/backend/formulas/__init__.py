"""Scalar mathematics, written once as formulas; derivatives and code follow from them (docs/formulas.md).

`expression.py` is the language, `derivative.py` derives, and `lowering.py` makes the flat program from which code is
written. Nothing here knows tensors.
"""

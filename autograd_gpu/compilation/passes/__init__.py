"""Passes over the instructions of a trace; each takes a list of nodes and returns another one that does the same."""

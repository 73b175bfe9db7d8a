"""Declares ops: the specs of a block, its jvp and batch rules."""

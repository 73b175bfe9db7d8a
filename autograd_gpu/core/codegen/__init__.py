"""The functions and node classes that are generated from an op's declaration."""

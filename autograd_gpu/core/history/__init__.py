"""The history of a tensor: changes by in-place operations, and where its nodes were created."""

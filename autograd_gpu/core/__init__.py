"""The machine: tensors, nodes, saved tensors, the engine, and how an op is declared. It names no op."""

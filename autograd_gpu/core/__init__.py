"""The core: tensors, nodes, saved tensors, the engine, and the declaration of ops. It does not depend on any op."""

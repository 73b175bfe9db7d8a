"""The recorded graph: nodes and leaves, storages and versions, hooks, and the base class of tensors."""

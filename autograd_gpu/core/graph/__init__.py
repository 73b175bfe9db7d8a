"""The recorded graph: nodes, leaves, storages, versions, hooks, and the base class of tensors."""

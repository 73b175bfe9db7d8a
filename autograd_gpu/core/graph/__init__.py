"""The recorded graph: nodes, storages and versions, saved tensors, hooks, views and in-place operations."""

"""The history of a tensor: how writes change it, and where its nodes were made."""

"""Interpreters: they see every call of an op before it runs."""

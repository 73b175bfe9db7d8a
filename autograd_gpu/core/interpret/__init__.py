"""Interpreters: intercept every call of an op before it runs."""

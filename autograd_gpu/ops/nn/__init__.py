"""Layers, activations and losses as functions."""

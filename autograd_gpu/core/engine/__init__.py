"""The engine: one task per call of backward or grad."""

"""The engine: runs one task per call of backward or grad."""

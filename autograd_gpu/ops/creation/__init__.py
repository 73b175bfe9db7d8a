"""Tensors made of data or of one value, and conversions of dtype and device."""

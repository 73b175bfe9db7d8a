"""Copies between a device and page-locked host memory, beside the compute stream."""

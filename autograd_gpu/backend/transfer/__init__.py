"""Copies between a device and page-locked host memory that overlap with the compute stream."""

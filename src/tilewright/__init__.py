"""Tilewright: tile kernels in Python, compiled natively, checked against the accelerator."""

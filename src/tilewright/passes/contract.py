"""Lowering of matrix products to micro-kernel grids on views."""

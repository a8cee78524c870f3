"""Lowering of loops and branches: carried tensors live in memory, scalars stay values."""

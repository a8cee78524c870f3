"""Passes: from the tile IR that a front end gives to the loop IR that code generation reads."""

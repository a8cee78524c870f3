"""Alias packages: published programs run under the names that they import."""

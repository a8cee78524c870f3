"""What is measured, and how: `python -m benchmarks [NAME ...]`."""

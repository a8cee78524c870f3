"""Python in, IR out: capture, evaluator, and the two front ends built on them."""

"""Loop IR to LLVM text to object bytes."""

"""The parsed style: the statements of an author's function, read one by one."""

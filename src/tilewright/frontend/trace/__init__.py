"""The traced style: a body that runs once, on stand-ins, and what each of its words records."""

"""Object bytes to something Python can call: load, check arguments, launch, report faults."""

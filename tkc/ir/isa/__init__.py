"""Facts about GPUs and PTX as frozen rows and small pure functions; imports the standard library only."""

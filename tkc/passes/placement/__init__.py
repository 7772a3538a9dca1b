"""The pieces of `place-tiles`: the state of one kernel, its statements, its copies, its register tiles."""

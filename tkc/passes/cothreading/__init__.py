"""The pieces of `cothread-copies` beside the pass: barriers that a program spells out, and what is said of copies."""

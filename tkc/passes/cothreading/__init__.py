"""The pieces of `cothread-copies` beside the pass, which moves copies between rings: barriers that a program spells out."""

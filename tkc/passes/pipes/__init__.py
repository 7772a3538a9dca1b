"""The pieces of `lower-pipes`: the barriers of rings, beside the pass that threads their state through roles."""

"""The pieces of `fuse-roles`: one order for the bodies of two roles, and accumulators that flow through both."""

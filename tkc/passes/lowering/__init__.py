"""The pieces of `lower-stage-to-ptx`: one file for each family of stage operations, one table that says who lowers
what."""

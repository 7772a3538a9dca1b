"""Parts of `split-over-cluster`."""

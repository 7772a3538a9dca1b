"""The command line's commands: one module each, holding a click command called `command`."""

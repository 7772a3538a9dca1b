"""The stage dialect: who does it and when."""

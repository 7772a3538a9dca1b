"""What is true of a program: roles and their warps, swizzles, launch facts, liveness; nothing is changed."""

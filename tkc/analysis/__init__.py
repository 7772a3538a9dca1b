"""What is true of a program: roles and their warps, swizzles, launch facts, liveness; passes ask, nothing is changed."""

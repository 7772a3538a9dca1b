"""What `eliminate-fences` needs besides: the fences of a kernel, their cost, and their words."""

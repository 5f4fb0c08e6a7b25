"""NVIDIA GPUs through the kernel driver's own ioctls."""

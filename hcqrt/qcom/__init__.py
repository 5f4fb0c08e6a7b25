"""Qualcomm Adreno GPUs through KGSL, the kernel driver's own ioctls."""

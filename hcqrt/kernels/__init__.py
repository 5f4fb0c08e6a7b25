"""The shipped kernels: data, no code."""

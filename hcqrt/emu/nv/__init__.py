"""The emulated NVIDIA driver and GPUs."""

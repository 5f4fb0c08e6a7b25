"""The unified-memory driver of the emulated NVIDIA stack: /dev/nvidia-uvm."""

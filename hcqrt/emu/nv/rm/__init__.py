"""The resource manager of the emulated NVIDIA driver: /dev/nvidiactl and /dev/nvidiaN."""

"""The emulated Qualcomm side: KGSL and Adreno GPUs."""

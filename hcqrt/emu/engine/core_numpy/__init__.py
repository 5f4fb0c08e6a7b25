"""The NumPy core: runs micro-op programs on flat arrays over threads."""

"""The `hcqrt` command."""

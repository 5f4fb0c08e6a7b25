"""hcqrt: GPU kernels with nothing between Python and the kernel driver. Names load on first use."""

from __future__ import annotations

"""Builds the emulator's C core when a compiler is at hand; without one the NumPy core does the work."""

from setuptools import setup

setup(cffi_modules=["hcqrt/emu/engine/build_core.py:ffibuilder"])

"""Command streams and launch descriptors as text and objects, for tools, errors and tests."""

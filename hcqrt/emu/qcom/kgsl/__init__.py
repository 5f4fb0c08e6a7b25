"""The emulated KGSL kernel driver: ioctls, memory objects, contexts, timestamps and fences."""

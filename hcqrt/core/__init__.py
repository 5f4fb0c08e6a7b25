"""Vendor-neutral HCQ: knows no ioctl and no packet."""

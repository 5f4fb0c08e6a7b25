"""Instruction sets: decode, encode and print one instruction word; tables, no state."""

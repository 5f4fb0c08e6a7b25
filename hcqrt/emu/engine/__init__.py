"""One executor for all instruction sets: decoded code is lowered to micro-ops, which a C core or a NumPy core runs."""

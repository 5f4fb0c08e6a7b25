"""Tables generated from headers by scripts/gen_*.py; never edited."""

"""Parts of the generators in scripts/: header text in, Python tables out."""

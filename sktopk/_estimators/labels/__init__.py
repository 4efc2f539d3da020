"""k labels per row."""

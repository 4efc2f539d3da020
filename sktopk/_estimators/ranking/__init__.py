"""An order of rows, with a threshold."""

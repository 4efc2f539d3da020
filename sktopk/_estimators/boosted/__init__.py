"""Gradient-boosted trees trained with losses of `sktopk.losses`."""

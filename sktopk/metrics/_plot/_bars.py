"""Bars of several displays side by side."""

import numpy as np

_GROUP_WIDTH = 0.8


def draw_bars(ax, height, **kwargs):
    """Draw bars at 0, 1, 2, ... and move those that are there aside; return the new ones."""
    bars = ax.bar(np.arange(len(height)), height, **kwargs)
    series = [each for each in ax.containers if hasattr(each, "patches")]
    width = _GROUP_WIDTH / len(series)
    for i, each in enumerate(series):
        for position, bar in enumerate(each.patches):
            bar.set(x=position - _GROUP_WIDTH / 2 + i * width, width=width)
    return bars

"""What the curves have in common: colours, reference lines, legends."""

import numpy as np

from ._pyplot import import_pyplot

# Okabe and Ito's colours without the yellow, which is too light on white.
_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
# One more than colours: curves repeat after 42, not after 6.
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
# Looking for the best place of a legend among more takes seconds.
_MAX_POINTS_FOR_BEST = 300_000
# One more than colours, too, for curves of so many points that markers would touch.
_DASHES = [(8, 2), (5, 1, 1, 1), (2, 1), (8, 1, 1, 1, 1, 1), (4, 2), (1, 1)]
_LINE_STYLES = ["-", *((0, dashes) for dashes in _DASHES)]
_REFERENCE_STYLES = {"Chance": "--", "Ideal": ":"}


def curve_axes(display, ax, *, markevery=1, **figure):
    """Return `ax`, or axes of a new `figure` for None; `display` holds them from now on.

    On empty axes the colour cycle becomes one that is safe for colour-blind readers, with a
    marker of its own for each curve, at each point or as `markevery` says.
    """
    plt = import_pyplot(f"{type(display).__name__}.plot")
    if ax is None:
        _, ax = plt.subplots(**figure)
    display.ax_, display.figure_ = ax, ax.figure
    if not ax.has_data():
        cycle = {"color": _COLORS * len(_MARKERS), "marker": _MARKERS * len(_COLORS)}
        ax.set_prop_cycle(**cycle, markevery=[markevery] * len(cycle["color"]))
    return ax


def free_line_style(ax):
    """Return the line style of the next curve without markers, as its colour in turn."""
    curves = [line for line in ax.lines if line.get_color() in _COLORS]
    n_curves = sum(line.get_linestyle() != "None" for line in curves)
    return _LINE_STYLES[n_curves % len(_LINE_STYLES)]


def draw_reference(ax, x, y, label, *, zorder=1.9):
    """Return the grey line called `label`, "Chance" or "Ideal", drawn unless it is there."""
    points = np.c_[x, y]
    for line in ax.lines:
        known = line.get_xydata()
        if line.get_label() == label and known.shape == points.shape and np.allclose(known, points):
            return line
    style = {"linestyle": _REFERENCE_STYLES[label], "zorder": zorder}
    # All that the cycle sets, or the next curve would skip a colour.
    style |= {"color": "0.45", "marker": "", "markevery": 1}
    return ax.plot(x, y, label=label, **style)[0]


def draw_level(ax, draw, level, label):
    """Return the grey line called `label`, by `ax.axhline` or `ax.axvline` unless it is there."""
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return draw(level, color="0.45", linestyle="--", zorder=1.9, label=label)


def draw_legend(ax, loc="best", **kwargs):
    """Name every curve, and last the reference lines, each kind once, where data leave room.

    `loc` is where that is likely, for so many points that looking for it takes too long; other
    arguments are matplotlib's.
    """
    entries = list(zip(*ax.get_legend_handles_labels(), strict=True))
    curves = [entry for entry in entries if entry[1] not in _REFERENCE_STYLES]
    handle_of = {label: handle for handle, label in entries}
    curves += [(handle_of[label], label) for label in _REFERENCE_STYLES if label in handle_of]
    if sum(len(line.get_xdata()) for line in ax.lines) <= _MAX_POINTS_FOR_BEST:
        loc = "best"
    if curves:
        ax.legend(*zip(*curves, strict=True), loc=loc, fontsize="small", **kwargs)

"""Draw figures 2 to 4 of paper 000 from our runs."""

from matplotlib.figure import Figure


def draw_curves(runs, methods, recalls):
    """Plot precision by recall: each run, and the mean of the runs of each method."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    ax = figure.subplots()
    columns = [f"precision at recall {recall:g}" for recall in recalls]
    for i, method in enumerate(methods):
        found = runs.loc[runs.method == method, columns]
        if found.empty:
            continue
        line = "--" if method.endswith("Adam") else "-"
        ax.plot(recalls, found.mean(), f"o{line}", color=f"C{i}", label=f"{method} ({len(found)})")
        ax.plot(recalls, found.T, line, color=f"C{i}", lw=0.5, alpha=0.4)
    ax.set_xscale("log")
    ax.set_xticks(recalls, [f"{recall:g}" for recall in recalls], minor=False)
    ax.minorticks_off()
    ax.set(xlabel="recall", ylabel="precision, %", ylim=(0, 101))
    ax.legend(title="method (runs)", fontsize=8)
    return figure


def draw_boxes(runs, methods, metric):
    """Plot a box of the runs of each method, with the mean as a diamond and the runs as dots."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    ax = figure.subplots()
    values = {method: runs.loc[runs.method == method, metric] for method in methods}
    values = {method: each for method, each in values.items() if len(each)}
    if values:
        style = {"showmeans": True, "meanprops": {"marker": "D"}, "widths": 0.4}
        ax.boxplot(list(values.values()), showfliers=False, **style)
        for place, each in enumerate(values.values(), 1):
            ax.plot([place + 0.28] * len(each), each, "k.", alpha=0.6)
        ticks = [f"{method}\n{len(each)} runs" for method, each in values.items()]
        ax.set_xticks(range(1, len(values) + 1), ticks)
    ax.set(ylabel=f"{metric}, %")
    return figure


def draw_thresholds(classifiers):
    """Plot estimated and true thresholds of the second epoch of each classifier."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots(1, len(classifiers), sharey=True)
    for ax, (name, clf) in zip(axes, classifiers.items(), strict=True):
        epoch = clf.history_[1]
        ax.plot(epoch["threshold"], label="minibatch")
        ax.plot(epoch["true_threshold"], "k--", label="true")
        ax.set(xlabel="Training step", ylabel="Threshold", title=name)
        ax.legend()
    return figure

"""Top-k accuracy of frequent and of rare classes."""

from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import shot_accuracy_score

from ._bars import draw_bars
from ._style import curve_axes, draw_legend

_GROUPS = ("many", "medium", "few")


class ShotAccuracyDisplay:
    """Bars of the top-k accuracy of many-, medium- and few-shot classes.

    Make it by `from_estimator` or `from_predictions`; the constructor only holds numbers.

    Parameters
    ----------
    accuracy : array-like of shape (3,)
        Macro top-k accuracy of the many-, medium- and few-shot classes; NaN for a group
        without classes, which then has no bar.
    k : int or float, default=5
        Number, or fraction of the classes, of labels looked at.
    few, many : float, default=20 and 100
        Bounds of the groups, as in `shot_accuracy_score`.
    name : str, default=None
        Name of the bars in the legend. None: no legend entry.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the bars.
    figure_ : matplotlib Figure
        Figure of the axes.
    bars_ : matplotlib BarContainer
        The bars, many-shot first.

    See Also
    --------
    shot_accuracy_score : The heights of the bars.

    Examples
    --------
    >>> from sktopk.metrics import ShotAccuracyDisplay
    >>> y_true = [0, 0, 1, 2]
    >>> y_score = [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    >>> display = ShotAccuracyDisplay.from_predictions(
    ...     y_true, y_score, class_counts=[500, 50, 5], k=1
    ... )
    >>> display.accuracy
    [0.5, 1.0, 0.0]
    """

    def __init__(self, accuracy, *, k=5, few=20, many=100, name=None):
        self.accuracy = accuracy
        self.k = k
        self.few = few
        self.many = many
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        class_counts=None,
        k=5,
        few=20,
        many=100,
        ties="expected",
        sample_weight=None,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Draw the bars of a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``. Classes of `y` that it does not know are few-shot classes with
            accuracy 0.
        X : array-like of shape (n_samples, n_features)
            Rows to classify.
        y : array-like of shape (n_samples,)
            True labels.
        class_counts : array-like of shape (n_classes,), default=None
            Training rows of each class, in the order of ``classes_``. None: the
            ``class_count_`` of the estimator.
        k : int or float, default=5
            Number, or fraction of the classes, of labels looked at.
        few, many : float, default=20 and 100
            A class with fewer than `few` training rows is a few-shot class, one with more
            than `many` a many-shot class.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows inside their class.
        name : str, default=None
            Name of the bars. None: the estimator's class name.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            With the numbers in `accuracy`, drawn on `ax_`.
        """
        if class_counts is None:
            class_counts = getattr(estimator, "class_count_", None)
        if class_counts is None:
            raise ValueError(
                "class_counts must be given, the training rows of each class in the order of "
                f"classes_: {type(estimator).__name__} has no class_count_"
            )
        classes, y_score = predict_scores(estimator, X)
        return cls.from_predictions(
            y,
            y_score,
            class_counts=class_counts,
            labels=classes,
            k=k,
            few=few,
            many=many,
            ties=ties,
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_score,
        *,
        class_counts,
        labels=None,
        k=5,
        few=20,
        many=100,
        ties="expected",
        sample_weight=None,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Draw the bars of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_score : array-like of shape (n_samples, n_classes) or (n_samples,)
            Scores, as in `topk_accuracy_score`.
        class_counts : array-like of shape (n_classes,)
            Training rows of each column's class.
        labels : array-like of shape (n_classes,), default=None
            The class of each column, as in `topk_accuracy_score`.
        k : int or float, default=5
            Number, or fraction of the classes, of labels looked at.
        few, many : float, default=20 and 100
            A class with fewer than `few` training rows is a few-shot class, one with more
            than `many` a many-shot class.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows inside their class.
        name : str, default=None
            Name of the bars. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            With the numbers in `accuracy`, drawn on `ax_`.
        """
        scores = shot_accuracy_score(
            y_true,
            y_score,
            class_counts=class_counts,
            labels=labels,
            k=k,
            few=few,
            many=many,
            ties=ties,
            sample_weight=sample_weight,
        )
        accuracy = [scores[group] for group in _GROUPS]
        name = "Classifier" if name is None else name
        return cls(accuracy, k=k, few=few, many=many, name=name).plot(ax, **kwargs)

    def plot(self, ax=None, *, name=None, **kwargs):
        """Draw the bars; those of several displays on one axes stand side by side.

        On empty axes the colour cycle is set to one that is safe for colour-blind readers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        name : str, default=None
            Name of the bars. None: the name of the display.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            This object, with `ax_`, `figure_` and `bars_`.
        """
        ax = curve_axes(f"{type(self).__name__}.plot", ax)
        label = self.name if name is None else name
        self.bars_ = draw_bars(ax, self.accuracy, **{"label": label, "zorder": 2, **kwargs})
        bounds = f"> {self.many:g}", f"{self.few:g} to {self.many:g}", f"< {self.few:g}"
        names = [f"{group}\n({bound})" for group, bound in zip(_GROUPS, bounds, strict=True)]
        ax.set_xticks(range(len(names)), names)
        ax.set(
            xlabel="Classes, by their training rows",
            ylabel=f"Top-{self.k} accuracy, mean over classes",
            ylim=(0, 1.02),
        )
        ax.grid(axis="y", color="0.9", zorder=0)
        ax.set_axisbelow(True)
        draw_legend(ax, "best")
        self.ax_, self.figure_ = ax, ax.figure
        return self

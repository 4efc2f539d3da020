"""TopKClassifier: k labels per row."""

import torch
from sklearn.utils.metaestimators import available_if

from sktopk._common._lazy_rows import own_labels
from sktopk._common._scalars import (
    check_number,
    check_option,
)
from sktopk._common._warnings import (
    warn,
)
from sktopk._estimators._calibration import CALIBRATIONS
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators._parameter_checks import (
    check_training_params,
)
from sktopk.losses._mixtures import check_k_distribution
from sktopk.metrics import make_topk_scorer

from ._auto_loss import choose_loss
from ._losses import (
    CRITERIA,
    auto_scale,
    check_candidates,
    has_partial_fit,
    loss_in_use,
    make_criterion,
    refresh_counts,
)
from ._topk_predictions import TopKPredictions


class TopKClassifier(TopKPredictions, NetClassifier):
    r"""Classifier of which one looks at the k best labels of each row.

    .. math::
        \min_f \; \frac{\sum_i w_i L_k(f(x_i), y_i)}{\sum_i w_i},
        \qquad f: \text{a network with one score per class}

    with a loss :math:`L_k` that asks for the label among the k highest scores rather than in
    the first place. That pays where the network cannot be right at once: small models, noisy
    or overlapping labels. Cross-entropy is as good where a large network meets clean,
    plentiful data: compare both.

    Features are not scaled inside: put a StandardScaler in front.

    Parameters
    ----------
    loss : str or nn.Module, default="smooth_topk"
        "cross_entropy", "smooth_topk" [1]_, "topk_hinge", "topk_hinge_convex",
        "topk_hinge_calibrated", "topk_grouping", "topk_transition" [2]_, "noised_topk",
        "noised_topk_imbalanced" [3]_, "focal", "ldam", "logit_adjusted": functions of
        :mod:`sktopk.losses`; or a module called as ``loss(scores, target)``. "auto" compares
        "smooth_topk", "topk_hinge_convex" and "noised_topk" with "cross_entropy" on held-out
        rows, see the notes.
    k : int or dict, default=5
        The k of the loss and of `predict_topk`. Clipped to n_classes - 1 with a warning; the
        k in use is `k_`. A dict such as ``{1: 0.5, 5: 0.5}`` trains for several at once, with
        weights; `k_` is then the largest.
    tau : float, default=1.0
        Temperature of the smooth loss, positive.
    sigma : float, default=0.2
        Standard deviation of the noise of the noised losses.
    n_noise : int or "exact", default=5
        Draws of the noised losses; "exact" is their expectation, for small k and few classes.
    margin : float, default=1.0
        Cost of a label outside the top k, nonnegative.
    max_margin : float, default=None
        Largest margin of the class-dependent losses; None is the loss's own default.
    gamma : float, default=2.0
        Focusing exponent of the focal loss.
    n_candidates : int, default=None
        For thousands of classes and more: a step trains the labels of its batch and this many
        classes drawn at random, see the notes. Larger than k, and better many times k: where at
        most k candidates are distinct, the smooth loss is 0. None: all classes.
    module : callable, default=None
        An nn.Module class or a function ``(n_features, n_outputs) -> nn.Module``, for images
        ``(n_channels, n_outputs)``. None is :class:`sktopk.modules.MLP`.
    hidden_layer_sizes : tuple of int, default=(100,)
        Hidden layers of the default network; ``()`` is a linear model.
    normalize : bool, default=False
        Whether the default network ends in a :class:`sktopk.modules.NormalizedLinear`.
    scale : float, default=None
        Factor inside the losses for normalised scores; None is the loss's own default.
    score_scale : float or "auto", default="auto"
        Factor on the network's output. The initial weights of a last linear layer are divided
        by it, so that training starts from the same scores. "auto" is 1 for
        cross-entropy and k max(5, 10 tau) for the smooth loss, which divides scores by k tau
        and is not sharp enough to be trained otherwise; 5 k for "topk_hinge", 10 for the other
        top-k losses, 3 for "ldam" and "noised_topk_imbalanced" (1 with `normalize`), else 1.
    optimizer : {"adam", "adamw", "sgd"} or torch.optim.Optimizer subclass, default="adam"
        Further arguments through `net_params`, such as ``optimizer__betas``.
    learning_rate : float, default=1e-3
        Step size.
    weight_decay : float, default=1e-4
        Of the optimizer.
    batch_size : int or "auto", default="auto"
        "auto" is min(128, n_samples).
    max_epochs : int, default=100
        Passes over the data.
    early_stopping : bool, default=False
        Whether to hold out `validation_fraction` of the rows given to `fit` (of a
        cross-validation fold: of its training part), score them after each epoch, stop after
        `n_iter_no_change` epochs without a gain above `tol`, and keep the best weights.
        Every class keeps a row in training.
    scoring : str, callable or None, default=None
        Score of the validation rows; None is the top-k accuracy at `k_`. One of probabilities,
        such as "neg_log_loss", needs a loss that models them or `calibration`, which is then
        fitted on these rows after each epoch.
    validation_fraction : float, default=0.1
        Share of rows held out for `early_stopping` and `calibration`.
    n_iter_no_change : int, default=10
        Patience in epochs.
    tol : float, default=1e-4
        Gain of the validation score that counts.
    class_weight : dict, "balanced" or None, default=None
        Weight of each label, multiplied with `sample_weight`.
    calibration : {"temperature", "sigmoid"} or None, default=None
        How held-out rows (X_val, y_val, or `validation_fraction` of the rows) turn scores into
        probabilities after training: softmax of scores over a temperature, or Platt's sigmoid
        per class, normalised.
    callbacks : list, default=None
        skorch callbacks or ``(name, callback)`` pairs; copied. They see encoded labels.
    net_params : dict, default=None
        Other arguments of the skorch net and, as ``module__x``, ``optimizer__x``,
        ``callbacks__name__x``, of its parts. Such keys can be set and searched directly.
        Patterns of parameter names meet ``module.`` first where `score_scale` is not 1.
    device : str or torch.device, default="auto"
        "auto" is the first GPU that torch sees, else the CPU.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Float type of data and network; "auto" keeps that of X.
    precision : "bfloat16" or None, default=None
        Autocast of the forward pass; losses are computed in float32.
    compile : bool, default=False
        Whether to compile network and loss with torch.compile.
    checkpoint : str, os.PathLike or None, default=None
        File in which `fit` keeps its progress: after a crash the same call goes on from there
        and ends with the same weights, bit for bit (see the notes of `fit`). Each fit needs a
        path of its own, which the clones of a search do not have.
    checkpoint_every : int, default=1
        Epochs from one writing of that file to the next.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, for `max_epochs` more epochs. Parameters that
        shaped the network or its loss must then be as they were.
    verbose : int, default=0
        1 shows a progress bar, 2 a line per epoch.
    random_state : int, RandomState or None, default=None
        Seed of initialisation, shuffling and splits. Torch's own generators stay as they are.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class in training, float64.
    k_ : int
        The k in use.
    loss_ : str
        With ``loss="auto"``: the loss that was chosen.
    comparison_ : dict
        With ``loss="auto"``: what it rests on. `scores`, lists by loss with a number per fold
        or block; `difference` of their mean from that of cross-entropy and its
        `standard_error`, floats by loss; `test_fraction`, as
        :class:`sktopk.metrics.LossComparisonDisplay` takes it with the scores; `reason`, the
        choice in words.
    calibration_ : tuple (str, ndarray, ndarray)
        With `calibration`: its name, and slopes and intercepts of the scores.
    n_features_in_ : int
        Columns of X (channels of images).
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a frame with string names.
    n_iter_ : int
        Epochs trained, over all warm starts and partial fits.
    history_ : list of dict
        A row per epoch: train_loss, valid_score and valid_loss if there were validation rows,
        dur (seconds) and what callbacks recorded.
    net_ : skorch net
        Its ``module_`` is the torch network.

    See Also
    --------
    sktopk.losses.smooth_topk_loss : The default loss on torch tensors.
    sktopk.losses.sample_candidates : What `n_candidates` draws.
    sktopk.model_selection.compare_losses : A comparison of any losses, with a test.
    sktopk.metrics.make_topk_scorer : What to pass as `scoring` to a search.

    Notes
    -----
    ``loss="auto"`` trains each of its four losses on the same five folds with the parameters
    given, so that it takes about 17 fits, and fits the chosen one to all rows. The score is
    `scoring`, by default the top-k accuracy at `k_`. A top-k loss is chosen if its mean is
    above that of cross-entropy by more than one standard error of the difference, corrected
    for shared training rows as in :class:`sktopk.metrics.LossComparisonDisplay`; of several
    the best. With (X_val, y_val) those rows take the place of the folds, in five blocks, and
    it takes five fits. Cross-entropy is used without a comparison where `k_` is 1, and where
    fewer than 100 distinct rows are there to score. Fits run one after another unless
    ``joblib.parallel_config(n_jobs=...)`` says otherwise. With `warm_start`, the loss stays.

    With `n_candidates`, a step costs the same for any number of classes. It evaluates the rows
    of the last layer of its candidates alone, whose scores are shifted as
    :func:`sktopk.losses.sample_candidates` says, so that "cross_entropy", "smooth_topk" and
    "focal" estimate their value over all classes; the other losses are refused. Other rows stay
    as they are in that step: `weight_decay` and the moments of the optimizer ("adam", "adamw" or
    "sgd") act on a row only when it is a candidate. The network must end in an nn.Linear or a
    NormalizedLinear. `train_loss` and `valid_loss` are then estimates, a little too low.
    Predictions look at all classes.

    References
    ----------
    .. [1] Berrada, Zisserman, Kumar. "Smooth Loss Functions for Deep Top-k Classification",
       ICLR 2018, eq. 9 and 10.
    .. [2] Sawada, Kaneko, Sagi. "Trade-offs in Top-k Classification Accuracies on Losses for
       Deep Learning", 2020, eq. 5 and 6.
    .. [3] Garcin, Servajean, Joly, Salmon. "Stochastic smoothing of the top-K calibrated hinge
       loss for deep imbalanced classification", ICML 2022, eq. 8 to 13.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> clf.predict_topk(X[:1])
    array([[0, 1]])
    """

    def __init__(
        self,
        loss="smooth_topk",
        *,
        k=5,
        tau=1.0,
        sigma=0.2,
        n_noise=5,
        margin=1.0,
        max_margin=None,
        gamma=2.0,
        n_candidates=None,
        module=None,
        hidden_layer_sizes=(100,),
        normalize=False,
        scale=None,
        score_scale="auto",
        optimizer="adam",
        learning_rate=1e-3,
        weight_decay=1e-4,
        batch_size="auto",
        max_epochs=100,
        early_stopping=False,
        scoring=None,
        validation_fraction=0.1,
        n_iter_no_change=10,
        tol=1e-4,
        class_weight=None,
        calibration=None,
        callbacks=None,
        net_params=None,
        device="auto",
        dtype="auto",
        precision=None,
        compile=False,
        checkpoint=None,
        checkpoint_every=1,
        warm_start=False,
        verbose=0,
        random_state=None,
    ):
        self.loss = loss
        self.k = k
        self.tau = tau
        self.sigma = sigma
        self.n_noise = n_noise
        self.margin = margin
        self.max_margin = max_margin
        self.gamma = gamma
        self.n_candidates = n_candidates
        self.module = module
        self.hidden_layer_sizes = hidden_layer_sizes
        self.normalize = normalize
        self.scale = scale
        self.score_scale = score_scale
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.scoring = scoring
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.calibration = calibration
        self.callbacks = callbacks
        self.net_params = net_params
        self.device = device
        self.dtype = dtype
        self.precision = precision
        self.compile = compile
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X, y=None, sample_weight=None, *, X_val=None, y_val=None):
        if self.loss == "auto" and not (self.warm_start and hasattr(self, "net_")):
            self._check_params()
            y = own_labels(X, y)
            self._choice = choose_loss(self, X, y, sample_weight, X_val, y_val)
        try:
            return super().fit(X, y, sample_weight, X_val=X_val, y_val=y_val)
        finally:
            vars(self).pop("_choice", None)

    fit.__doc__ = NetClassifier.fit.__doc__

    @available_if(has_partial_fit)
    def partial_fit(self, X, y=None, classes=None, sample_weight=None):
        return super().partial_fit(X, y, classes, sample_weight)

    partial_fit.__doc__ = NetClassifier.partial_fit.__doc__

    def _check_params(self):
        check_training_params(self)
        if isinstance(self.loss, str):
            check_option(self.loss, "loss", (*CRITERIA, "auto"))
        elif not isinstance(self.loss, torch.nn.Module):
            raise TypeError(
                f"loss must be one of {', '.join(map(repr, CRITERIA))} or an nn.Module called as "
                f"loss(scores, target); got {self.loss!r}"
            )
        if isinstance(self.k, dict):
            check_k_distribution(self.k)
        for k in self.k if isinstance(self.k, dict) else [self.k]:
            check_number(k, "k", 1, integer=True)
        check_number(self.tau, "tau", 0, bounds="neither")
        check_number(self.sigma, "sigma", 0)
        if isinstance(self.n_noise, str):
            check_option(self.n_noise, "n_noise", ("exact",))
        else:
            check_number(self.n_noise, "n_noise", 1, integer=True)
        check_number(self.margin, "margin", 0)
        check_number(self.gamma, "gamma", 0)
        for name in ("max_margin", "scale"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, 0, bounds="neither")
        check_option(self.calibration, "calibration", CALIBRATIONS)
        check_candidates(self)

    def _begin(self, partial):
        n_classes = len(self.classes_)
        k = max(self.k) if isinstance(self.k, dict) else self.k
        self.k_ = min(int(k), n_classes - 1)
        if self.k_ < k:
            warn(
                f"k={k} must be smaller than the number of classes ({n_classes}): "
                f"k_={self.k_} is used",
            )
        if self.loss == "auto":
            self.loss_, self.comparison_ = self._choice
        loss = loss_in_use(self)
        # What scores mean is what they were trained for, whatever is set later.
        self._exponent_unit_ = self.k_ * self.tau if loss == "smooth_topk" else 1.0
        self._models_proba_ = isinstance(loss, str) and CRITERIA[loss].models_proba

    def _score_scale(self):
        return auto_scale(self) if self.score_scale == "auto" else self.score_scale

    def _criterion(self):
        return make_criterion(self)

    def _make_batches(self, X, target, weight, partial):
        refresh_counts(self)
        return super()._make_batches(X, target, weight, partial)

    def _default_scorer(self):
        return make_topk_scorer(self.k_)

"""What the docstrings of the classifiers of two classes have in common."""

TRAINING_PARAMETERS = """\
    min_positives : int, default=5
        Least number of positives in a minibatch, see
        :class:`sktopk.samplers.StratifiedBatchSampler`. Smaller than `batch_size`.
    module : callable, default=None
        An nn.Module class or a function ``(n_features, n_outputs) -> nn.Module`` with
        n_outputs = 1, for images ``(n_channels, n_outputs)``. None is
        :class:`sktopk.modules.MLP`.
    hidden_layer_sizes : tuple of int, default=(100,)
        Hidden layers of the default network; ``()`` is a linear model.
    normalize : bool, default=False
        Whether the default network ends in a :class:`sktopk.modules.NormalizedLinear`.
    score_scale : float or "auto", default="auto"
        Factor on the network's output; "auto" is 1.
    optimizer : {"adam", "adamw", "sgd"} or torch.optim.Optimizer subclass, default="adam"
        Further arguments through `net_params`, such as ``optimizer__betas``.
    learning_rate : float, default=1e-3
        Step size.
    weight_decay : float, default=1e-4
        Of the optimizer.
    batch_size : int or "auto", default="auto"
        "auto" is min(128, n_samples). A batch of all rows needs no estimate of the threshold.
    max_epochs : int, default=100
        Passes over the data; over the negatives, if positives are too rare for every batch.
    early_stopping : bool, default=False
        Whether to hold out `validation_fraction` of the rows given to `fit`, score them after
        each epoch, stop after `n_iter_no_change` epochs without a gain above `tol`, and keep
        the best weights.
    scoring : str, callable or None, default=None
        Score of the validation rows; None is the metric of `score`. One of probabilities,
        such as "neg_log_loss", needs `calibration`, which is then fitted on these rows after
        each epoch.
    validation_fraction : float, default=0.1
        Share of rows held out for `early_stopping` and `calibration`.
    n_iter_no_change : int, default=10
        Patience in epochs.
    tol : float, default=1e-4
        Gain of the validation score that counts.
    calibration : {"temperature", "sigmoid"} or None, default=None
        How held-out rows (X_val, y_val, or `validation_fraction` of the rows) turn scores into
        probabilities after training; only then is there a `predict_proba`. "temperature"
        leaves 1/2 at `threshold_`, "sigmoid" also fits the base rate.
    callbacks : list, default=None
        skorch callbacks or ``(name, callback)`` pairs; copied. They see labels 0 and 1.
    net_params : dict, default=None
        Other arguments of the skorch net and, as ``module__x``, ``optimizer__x``,
        ``callbacks__name__x``, of its parts. Such keys can be set and searched directly.
    device : str or torch.device, default="auto"
        "auto" is the first GPU that torch sees, else the CPU.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Float type of data and network; "auto" keeps that of X.
    precision : "bfloat16" or None, default=None
        Autocast of the forward pass; losses are computed in float32.
    compile : bool, default=False
        Whether to compile the network with torch.compile.
    checkpoint : str, os.PathLike or None, default=None
        File in which `fit` keeps its progress: after a crash the same call goes on from there
        and ends with the same weights, bit for bit (see the notes of `fit`). Each fit needs a
        path of its own, which the clones of a search do not have.
    checkpoint_every : int, default=1
        Epochs from one writing of that file to the next.
    warm_start : bool, default=False
        Whether `fit` goes on from the last fit, for `max_epochs` more epochs.
    verbose : int, default=0
        1 shows a progress bar, 2 a line per epoch.
    random_state : int, RandomState or None, default=None
        Seed of initialisation, batches and splits. Torch's own generators stay as they are.

    Attributes
    ----------
    threshold_ : float
        What `decision_function` subtracts from the scores; `predict` is the sign of the rest.
        After `partial_fit` it is estimated from the last piece.
@@K@@    calibration_ : tuple (str, ndarray, ndarray)
        With `calibration`: its name, and slopes and intercepts of the scores.
    classes_ : ndarray of shape (2,)
        Sorted labels; the second is the positive one.
    class_count_ : ndarray of shape (2,)
        Sum of the sample weights of each class in training, float64.
    n_features_in_ : int
        Columns of X (channels of images).
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a frame with string names.
    n_iter_ : int
        Epochs trained, over all warm starts and partial fits.
    history_ : list of dict
        A row per epoch: train_loss, valid_score and valid_loss if there were validation rows,
        dur (seconds), what callbacks recorded@@HISTORY@@.
    net_ : skorch net
        Its ``module_`` is the torch network.
"""

# Of the estimators that have a k.
K_ATTRIBUTE = """\
    k_ : int
        The k in use.
"""

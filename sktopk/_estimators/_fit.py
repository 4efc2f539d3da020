"""Steps of `fit`: check the data, build the network, and train it."""

import copy

import numpy as np
import torch
from scipy.sparse import issparse

from sktopk._common._input import (
    check_labelled,
    check_labels,
    check_length,
    check_rows,
    encode,
    encode_labels,
    listed,
    own_labels,
)
from sktopk._common._process import is_parallel, joined, total
from sktopk._common._samples import (
    Folds,
    HeldOut,
    LazyRows,
    Samples,
    SomeRows,
    check_groups_of_both,
    chunks,
    deal,
    several_groups,
)
from sktopk._common._scalars import class_weights
from sktopk._common._warnings import warn, warn_of_order
from sktopk._training._batches import make_batches
from sktopk._training._callbacks import ProgressBar, Validation, kept_epoch
from sktopk._training._scores import loss_of, scores_by_fold, scores_of
from sktopk.modules._tabular_mlp import Members, mean_of_members

from ._build import OURS, build_net, show_data

# batch_size="auto" means n_samples // BATCHES, clipped to [LEAST_BATCH, MOST_BATCH].
LEAST_BATCH, MOST_BATCH, BATCHES = 64, 256, 20
# n_estimators="auto" means NETWORKS, or one network for more than MOST_CLASSES classes.
NETWORKS, MOST_CLASSES = 8, 1000
_BLOCK_NUMBERS = 1 << 22  # values of X per chunk in the search for missing values
HELD_OUT_FOLDS = 10  # number of folds for a single network, which holds out the first fold


def validate(clf, X, y, sample_weight, groups, classes=None, *, is_fit=True):
    """Return the checked samples. Set attributes of `clf`, such as `classes_` and `_task_`."""
    resumed = hasattr(clf, "net_")
    data = check_labelled(
        clf, X, y, sample_weight, groups,
        reset=not resumed,
        takes_tables=getattr(clf.module, "takes_tables", False),
        takes_images=clf.module not in OURS,
    )  # fmt: skip
    if hasattr(clf, "categories_") and is_parallel():
        raise ValueError("X must not have categories if several processes train: encode X first")
    if classes is not None:
        found = clf._check_classes(check_labels(classes, "classes"), "classes")
    else:
        found = clf.classes_ if resumed else clf._check_classes(joined(np.unique(data.y))[0])
    if resumed and not np.array_equal(found, clf.classes_):
        raise ValueError(f"classes must be as in the first call, {clf.classes_}; got {found}")
    clf.classes_ = found
    if not resumed:
        clf.n_estimators_ = n_networks(clf)
    index = encode(clf.classes_, data.y)
    if (index < 0).any():
        raise ValueError(
            f"y has labels {np.unique(data.y[index < 0])} that are not among the classes "
            f"{clf.classes_}: start again, with all labels as `classes` in the first call of "
            "partial_fit, or with all samples in fit"
        )
    weight, n_classes = data.weight, len(clf.classes_)
    count = of_class = total(np.bincount(index, weight, n_classes))
    seen = count + (clf.class_count_ if resumed else 0)
    if getattr(clf, "class_weight", None) is not None:
        weight = weight * class_weights(clf.class_weight, clf.classes_, seen)[index]
        if not total(np.count_nonzero(weight)):
            raise ValueError("sample_weight * class_weight must be above 0 for at least one sample")
        of_class = total(np.bincount(index, weight, n_classes))
    clf.class_count_ = seen
    clf._n_seen_ = total(len(weight)) + (clf._n_seen_ if resumed else 0)
    clf._class_total_ = of_class + (clf._class_total_ if resumed else 0)
    if clf._missing_ is not None and not resumed:
        # Omit missing-value indicators that are constant in training: they would not be trained.
        missing, filled = (np.unique(joined(each)[0]) for each in columns_with_missing(data.X))
        clf._missing_ = tuple(np.intersect1d(missing, filled).tolist())
        if len(empty := np.setdiff1d(missing, filled)):
            names = getattr(clf, "feature_names_in_", np.arange(data.X.shape[1]))[empty].tolist()
            warn(f"columns {names} of X have no values, and are ignored: drop them")
    vars(clf).pop("n_groups_", None)
    groups = several_groups(data.groups) if is_fit else data.groups
    if groups is not None:
        clf.n_groups_ = len(np.unique(groups))
    clf._task_ = clf._make_task()
    if not clf._task_.is_ranking:
        groups = data.groups  # with one group, no samples are held out
    target = np.arange(n_classes)[clf._task_.order][index]
    if is_fit and clf._task_.is_ranking:
        if groups is not None:
            check_groups_of_both(target, groups)
        if hasattr(clf, "k"):
            clf._check_rank(groups)
    return data._replace(weight=weight, target=target, groups=groups, count=data.weight)


def columns_with_missing(X):
    """Return two index arrays: columns with a NaN, and columns with a value that is not NaN."""
    table = X
    while isinstance(table, SomeRows):
        table = table.table
    if len(X.shape) != 2 or isinstance(table, LazyRows):
        return np.zeros((2, 0), np.intp)  # Datasets with missing values are rejected
    found, filled = np.zeros((2, X.shape[1]), dtype=bool)
    for part in chunks(*X.shape, _BLOCK_NUMBERS):
        rows = X[part]
        if issparse(rows):
            found[rows.indices[np.isnan(rows.data)]] = filled[:] = True
        else:
            missing = np.isnan(rows)
            found |= missing.any(axis=0)
            filled |= ~missing.all(axis=0)
    return np.flatnonzero(found), np.flatnonzero(filled)


def check_validation(clf, X_val, y_val):
    """Return checked validation samples, weighted by `class_weight`. Warn of labels not in y."""
    warn_of_order(X_val, "X_val", y_val=y_val)
    y_val = own_labels(X_val, y_val)
    if X_val is None or y_val is None:
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"X_val and y_val must be passed together; {missing} is None")
    try:
        X_val = check_rows(clf, X_val)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"X_val is not valid: {error}") from error
    y_val = check_labels(y_val, "y_val")
    check_length(y_val, X_val.shape[0], "y_val")
    code = encode_labels(clf.classes_, y_val, "y_val")
    unknown, found = np.unique(y_val[code < 0]), np.unique(y_val)
    which, wrong = ("both", "negatives") if clf._task_.is_ranking else ("some", "errors")
    if len(found) - len(unknown) < 1 + clf._task_.is_ranking:
        raise ValueError(
            f"y_val must have {which} labels of y: {listed(clf.classes_)}; got only {listed(found)}"
        )
    if len(unknown):
        warn(f"y_val has labels that are not in y: {listed(unknown)}; they count as {wrong}")
    weight = class_weights(getattr(clf, "class_weight", None), clf.classes_, clf.class_count_)
    if not weight[code[code >= 0]].any():
        raise ValueError(f"y_val must have a label with class_weight > 0; got only {listed(found)}")
    weight = np.where(code < 0, 1.0, weight[code])
    return Samples(X_val, y_val, weight, target=clf._task_.target(y_val))


def n_networks(estimator):
    """Return the number of networks. Warn if "auto" means only one."""
    n_classes, given = len(estimator.classes_), estimator.n_estimators
    if not isinstance(given, str):
        return int(given)
    if n_classes <= MOST_CLASSES:
        return NETWORKS
    warn(
        f'n_estimators="auto" trains one network instead of {NETWORKS}, because y has {n_classes} '
        f"classes (more than {MOST_CLASSES}). Set n_estimators to {NETWORKS} (an ensemble) or 1"
    )
    return 1


def hold_out(clf, data, seed):
    """Return (train, held_out, folds). One network has folds=None, an ensemble held_out=None."""
    order, target = data.order(seed), data.target
    n_members, is_ranking = clf.n_estimators_, clf._task_.is_ranking
    for n_folds in range(n_members if n_members > 1 else HELD_OUT_FOLDS, 1, -1):
        fold = deal(order, target, n_folds)
        # Rankings need both classes in each fold. Other tasks only need samples in each fold,
        # because `deal` never puts all samples of a class into one fold.
        parts = (fold + n_folds * target * is_ranking)[fold >= 0]
        if len(np.unique(parts)) == n_folds * (1 + is_ranking):
            break
    else:
        return data, None, None
    if n_members == 1:
        return data.take(fold != 0), data.take(fold == 0)._replace(ordered=order[fold == 0]), None
    return data, None, Folds(fold, order, n_folds, np.arange(n_members) % n_folds)


def build(clf, data, seed):
    """Create the network, compute its column scaling from the data, and check its output."""
    n_samples, seed = len(data.y), joined(np.array([seed]))[0].item(0)  # of the first process
    clf.batch_size_, clf.max_epochs_ = batches_and_epochs(clf, n_samples)
    # A network in float64 takes twice the time. It is useful only without minibatches, because only
    # then a sample weight of 2 has exactly the effect of two samples.
    dtype = data.X.dtype.name
    dtypes = (dtype if n_samples <= clf.batch_size_ else "float32"), dtype
    clf.net_ = build_net(clf, clf._task_, dtypes, seed, check_device(clf.device))
    show_data(clf.net_, data.X, data.weight)
    with clf.net_.isolated():
        check_output(clf.net_, data.X)


def batches_and_epochs(estimator, n_samples):
    """Return the batch size and the number of epochs for training on `n_samples` samples."""
    batch_size, max_epochs = estimator.batch_size, estimator.max_epochs
    if isinstance(batch_size, str):
        batch_size = min(MOST_BATCH, max(LEAST_BATCH, n_samples // BATCHES))
    if isinstance(max_epochs, str):
        n_batches = max(1, -(-(n_samples - 1) // batch_size))  # no minibatch has a single sample
        training = estimator._task_.training
        max_epochs = max(training.least_epochs, -(-training.least_steps // n_batches))
    return int(batch_size), int(max_epochs)


def check_output(net, X):
    """Check with two samples that the network returns scores of the expected type and shape."""
    rows = net.rows(X[:2])
    net.module_.eval()
    try:
        # Call `forward`, because `net.module_(...)` may compile a graph for only two samples.
        with net.autocast():
            scores = net.module_.forward(rows[:])
    except (RuntimeError, TypeError, ValueError) as error:
        kind = f"shape {tuple(rows.shape[1:])} and {rows.dtype}"
        raise ValueError(f"module fails on samples of {kind}: {error}") from error
    is_tensor = isinstance(scores, torch.Tensor)
    if not is_tensor or not scores.is_floating_point():
        came = f"a Tensor of {scores.dtype}" if is_tensor else type(scores).__name__
        raise TypeError(f"module must return a Tensor of floating point scores; got {came}")
    if not scores.requires_grad:
        raise ValueError(
            "module must return scores with a gradient; got scores that are detached from its "
            "parameters or do not depend on them"
        )
    n_members, n_outputs = net.settings.n_members, net.settings.task.n_outputs
    members = (n_members,) if n_members > 1 else ()
    expected = (rows.shape[0], *members, n_outputs)
    allowed = [expected, (rows.shape[0],)] if n_outputs == 1 and not members else [expected]
    if tuple(scores.shape) not in allowed:
        place = 2 if isinstance(net.module_, Members) else 1  # `Members` has several user modules
        came = (*scores.shape[:1], *scores.shape[place:])
        shape = ", ".join(map(str, ("n_samples", *expected[place:])))
        raise ValueError(f"module must return scores of shape ({shape}); got shape {came}")
    loss = net.settings.task.training.cosines_for
    if loss and not _is_bounded_by_its_layers(net, rows[:]):
        raise ValueError(
            f"module must return cosines for loss={loss!r}: end the network with "
            "sktopk.modules.NormalizedLinear; got scores that are not bounded by [-1, 1]"
        )
    if net.criterion_.named.takes_scores and are_probabilities(mean_of_members(scores)):
        warn(
            "module seems to return probabilities, but the losses take scores: remove the "
            "softmax at its end (torch.nn.Softmax)"
        )


def _is_bounded_by_its_layers(net, rows):
    """Return whether scores stay in [-1, 1] if all weights are multiplied by a large number."""
    larger = copy.deepcopy(net.module_)
    with torch.no_grad(), net.autocast():
        for parameter in larger.parameters():
            parameter.mul_(1e3)
        return bool(larger.forward(rows).abs().max() <= 1 + 1e-3)


def are_probabilities(scores):
    """Return whether all scores are nonnegative and the scores of each sample sum to 1."""
    if scores.ndim < 2 or scores.shape[1] < 2:
        return False
    sums = scores.detach().double().sum(1)
    return bool(((sums - 1).abs().max() < 1e-2) & (scores.min() >= 0))


def check_device(device):
    """Return a torch.device. "auto" means a GPU if torch finds one (other than mps), else CPU."""
    if isinstance(device, str) and device == "auto":
        found = torch.accelerator.is_available() and torch.accelerator.current_accelerator()
        return found if found and found.type != "mps" else torch.device("cpu")
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f'device must be "auto" or a torch device such as "cpu" or "cuda:0"; got {device!r}'
        ) from error
    try:
        torch.zeros(1, dtype=torch.float64, device=checked).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]  # torch adds a list of backends
        message = f"device={device!r} cannot be used here ({reason}): use 'cpu' or 'auto'"
        raise ValueError(message) from error
    return checked


def train(clf, data, validation=None, folds=None, checkpoint=None, *, resumed=False):
    """Train. Return two values: the KeyboardInterrupt of Ctrl-C, or None; and the `Totals`."""
    net, task, target = clf.net_, clf._task_, data.target
    callbacks, unseen = {}, validation
    batches = make_batches(
        net.rows(data.X, resident=True) if resumed else net.encoded_rows(data.X),
        target,
        data.weight,
        n_classes=len(clf.classes_),
        n_members=clf.n_estimators_,
        batch_size=batches_and_epochs(clf, len(target))[0],
        min_positives=task.training.min_positives,
        n_hard=net.criterion_.n_hard,
        generator=net.generator,
        folds=folds,
        groups=data.groups if task.is_ranking else None,
        # In `partial_fit`, use the number of samples and the weight of each class in all calls.
        seen=(clf._class_total_[task.order], clf._n_seen_) if resumed else None,
    )
    if folds is not None:
        # Sort labels, weights and groups by fold, because `HeldOut` sorts the samples by fold.
        X, others = HeldOut(data.X, folds), (data.y, data.weight, data.groups, target)
        unseen = Samples(X, *(None if each is None else each[X.index] for each in others))
    if unseen is not None:
        totals = batches.totals if clf.callbacks or folds is None else None
        values = values_of(task, unseen, folds, totals, batches.rows)
        callbacks["validation"] = Validation(values, clf.n_iter_no_change)
    n_epochs = 1 if resumed else clf.max_epochs_
    if clf.verbose == 1:
        callbacks["progress"] = ProgressBar(n_epochs)
    stopped = net.train(batches, n_epochs, callbacks, data, unseen, checkpoint, is_fit=not resumed)
    clf.history_ = [plain_row(row) for row in net.history_.to_list()]
    clf.n_iter_ = len(clf.history_)
    readers = [] if resumed else [*callbacks.items(), *net.callbacks_]
    clf.kept_epoch_ = kept_epoch(readers, clf.history_)
    return stopped, batches.totals


def plain_row(row):
    """Return the history of an epoch as a dict. Values of minibatches become arrays."""
    steps = {k: np.array(v) for k, v in row["batches"][0].items() if isinstance(v, list)}
    values = {name: value for name, value in row.items() if name != "batches"}
    return steps | {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}


def values_of(task, unseen, folds, totals, rows):
    """Return a function `values(net)` for :class:`Validation` that scores held-out samples."""
    order = unseen.order(0) if folds is None else folds.order[unseen.X.index]
    cluster = np.unique(order, return_inverse=True)[1]

    def values(net):
        found, losses, shares = [], [], []
        # Balance the classes of all parts together. Unknown labels (-1) form one more class.
        balanced = task.calibration_weights(unseen.target % (len(task.classes) + 1), unseen.weight)
        columns = unseen.target, unseen.weight, unseen.groups, balanced
        if folds is None:
            parts = [(slice(None), scores_of(net, unseen.X))]
        else:
            # Scores of different networks are not compared, and need not be in memory together.
            parts = scores_by_fold(net, unseen.X, rows if rows.encoded else None)
        for own, scores in parts:
            y, weight, groups, counted = (None if each is None else each[own] for each in columns)
            finite(scores, "X_val" if folds is None else "X")
            found.append(task.values(y, scores, counted, groups))
            if totals is not None:
                losses.append(loss_of(net, scores, y, weight, totals))
                shares.append(weight.sum())
        loss = None if totals is None else np.dot(losses, shares) / max(sum(shares), 1e-300)
        return *map(np.concatenate, zip(*found, strict=True)), cluster, loss

    return values


def in_dtype_of(X, scores):
    """Convert scores to float64 if X is float64: networks with float32 weights return float32."""
    return scores.astype(np.float64) if X.dtype == np.float64 else scores


def finite(scores, name="X"):
    """Return `scores`. Raise an error if a row has NaN or +infinity, or only -infinity."""
    if not np.isfinite(scores.max(axis=1)).all():
        raise ValueError(
            f"The network returns NaN or infinity: {name} has values too large for its dtype, or a "
            "network weight is not finite. Scale X, or lower learning_rate and fit again"
        )
    return scores

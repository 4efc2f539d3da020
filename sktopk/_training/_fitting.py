"""The parts of a fit: the net, its batches, its callbacks, its warnings."""

import copy
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from sktopk._common._labels import (
    class_weights,
)
from sktopk._common._scoring import check_scorer, weight_for, with_names
from sktopk._common._warnings import (
    warn,
)
from sktopk.metrics._scorer import TopKScorer
from sktopk.metrics._top_scorer import TopScorer
from sktopk.modules import MLP, ScaledScores

from ._batches import MiniBatches, ShuffledBatches
from ._callbacks import ProgressBar, Validation
from ._candidates import CandidateNet
from ._distributed import all_objects, check_equal_batches, total
from ._net import Net
from ._torch_names import (
    check_device,
    check_optimizer,
)

# What a net that goes on training may find changed; all else was built into it.
CHANGEABLE = {
    "learning_rate",
    "weight_decay",
    "batch_size",
    "max_epochs",
    "early_stopping",
    "scoring",
    "validation_fraction",
    "n_iter_no_change",
    "tol",
    "class_weight",
    "min_positives",
    "record_true_threshold",
    "calibration",
    "checkpoint",
    "checkpoint_every",
    "warm_start",
    "verbose",
    "random_state",
}

COLUMNS = ("n_features_in_", "feature_names_in_", "input_shape_")


@contextmanager
def columns_kept(estimator):
    """Take back what a refused table has changed of the columns that predictions expect."""
    before = columns(estimator)
    try:
        yield
    except BaseException:
        for name in columns(estimator):
            delattr(estimator, name)
        vars(estimator).update(before)
        raise


def columns(estimator):
    """What an estimator knows of the columns of X, by attribute."""
    return {name: value for name, value in vars(estimator).items() if name in COLUMNS}


@contextmanager
def trainable():
    """Build and train nets as ever, also inside a caller's no_grad or inference_mode."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def build_net(estimator, dtype, seed, device=None):
    """Return the untrained net of an estimator that knows its classes and columns."""
    params = dict(estimator.net_params or {})
    module_params = {k[8:]: params.pop(k) for k in list(params) if k.startswith("module__")}
    if estimator.module is None:
        module_params |= {
            "hidden_layer_sizes": estimator.hidden_layer_sizes,
            "normalize": estimator.normalize,
        }
    n_outputs = estimator._n_outputs()

    def build_module():
        module = (estimator.module or MLP)(estimator.n_features_in_, n_outputs, **module_params)
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"module must build an nn.Module; got {type(module).__name__}")
        if any(torch.nn.parameter.is_lazy(p) for p in module.parameters()):
            raise ValueError("module must not have lazy layers: give each layer its input size")
        scale = estimator._score_scale()
        return module if scale == 1 else ScaledScores(module, n_outputs, scale)

    kind = Net if getattr(estimator, "n_candidates", None) is None else CandidateNet
    net = kind.build(
        build_module,
        estimator._criterion().to(getattr(torch, dtype)),
        seed=seed,
        dtype=getattr(torch, dtype),
        device=check_device(estimator.device) if device is None else device,
        # Modules and losses of others may draw random numbers in every forward pass.
        draws=estimator.module is not None
        or isinstance(getattr(estimator, "loss", None), torch.nn.Module)
        or bool(module_params.get("dropout")),
        n_classes=len(estimator.classes_),
        n_outputs=n_outputs,
        optimizer=check_optimizer(estimator.optimizer),
        learning_rate=estimator.learning_rate,
        weight_decay=estimator.weight_decay,
        callbacks=copy.deepcopy(list(estimator.callbacks or [])),
        precision=estimator._autocast(),
        compile=estimator.compile,
        verbose=estimator.verbose,
        params=params,
    )
    net.params_of_net = estimator.get_params(deep=False)
    return net


def take_changes(estimator):
    """Give the net of a fitted estimator the parameters that may change before more training."""
    net, then = estimator.net_, estimator.net_.params_of_net
    for name, value in estimator.get_params(deep=False).items():
        if name not in CHANGEABLE and not _same(value, then[name]):
            raise ValueError(
                f"a net that was started with {name}={then[name]!r} cannot go on with "
                f"{name}={value!r}: set warm_start=False and fit anew"
            )
    names = {"learning_rate": "lr", "weight_decay": "optimizer__weight_decay"}
    changed = [name for name in names if getattr(estimator, name) != then[name]]
    if changed:
        rates = {names[name]: getattr(estimator, name) for name in changed}
        net.set_params(**rates)
        # set_params reaches the optimizer there is; this, one made anew.
        vars(net).update(rates)
        then.update({name: getattr(estimator, name) for name in changed})


def undoing(estimator):
    """Return what takes back all but weights that more data change, if no epoch was trained."""
    net, n_epochs = estimator.net_, len(estimator.net_.history_)
    if n_epochs == 0:
        return lambda: None
    criterion = net.criterion_
    # With the hard rows among it.
    state, n_rows = copy.deepcopy(criterion.state_dict()), getattr(criterion, "n_rows", None)
    fitted = {k: v for k, v in vars(estimator).items() if k in ("class_count_", "calibration_")}

    def undo():
        if len(net.history_) == n_epochs:
            vars(estimator).update(fitted)
            criterion.load_state_dict(state)
            if n_rows is not None:
                criterion.n_rows = n_rows

    return undo


def _same(a, b):
    """Whether two values of a parameter, which may hold arrays, are equal."""
    if isinstance(a, np.ndarray | torch.Tensor) or isinstance(b, np.ndarray | torch.Tensor):
        return np.array_equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or bool(a == b)


def probe(net, X):
    """Check what the module returns for two rows."""
    rows = net.rows(X[:2])
    module = net.module_.eval()
    if isinstance(module, ScaledScores):
        module = module.module
    try:
        # Not by a call, which would compile a graph for two rows.
        with trainable(), net.autocast():
            scores = module.forward(rows[:])
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"module fails on rows of shape {rows.shape[1:]}: {error}") from error
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        is_tensor = isinstance(scores, torch.Tensor)
        came = f"a Tensor of {scores.dtype}" if is_tensor else type(scores).__name__
        raise TypeError(f"module must return a Tensor of floating point scores; got {came}")
    if not scores.requires_grad:
        raise ValueError(
            "module must return scores with a gradient; got scores that do not depend on its "
            "parameters, or are detached from them"
        )
    try:
        outputs = list(net.score_rows(rows))
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"module fails on rows of shape {rows.shape[1:]}: {error}") from error
    for chunk, scores in outputs:
        n_rows = chunk.stop - chunk.start
        if tuple(scores.shape) not in {(n_rows, net.n_outputs), (n_rows,) * (net.n_outputs == 1)}:
            raise ValueError(
                f"module must return scores of shape (n_samples, {net.n_outputs}), one per "
                f"class, or per row of two classes that are ranked; got shape "
                f"{tuple(scores.shape)} for {n_rows} rows"
            )
    if isinstance(net, CandidateNet):
        net.check_last_layer(rows)


def make_batches(estimator, X, target, weight):
    """Return shuffled minibatches on the device; weights have mean 1."""
    net = estimator.net_
    weights = class_weights(
        getattr(estimator, "class_weight", None), estimator.classes_, estimator.class_count_
    )
    weight = weight / max(all_objects(weight.max())) * weights[target]
    mean = total(weight.sum()) / total(len(weight))
    if mean == 0:
        raise ValueError("sample_weight times class_weight must not be 0 for every row")
    weight = weight / mean
    device = torch.device(net.device)
    size = batch_size(estimator)
    sampler = ShuffledBatches(len(target), size, net.generator) if len(target) > size + 1 else None
    check_equal_batches(1 if sampler is None else len(sampler))
    return MiniBatches(
        net.rows(X, resident=True),
        torch.from_numpy(target).to(device),
        None if np.all(weight == 1) else torch.from_numpy(weight).to(device, net.dtype),
        sampler,
    )


def batch_size(estimator):
    """Number of rows of a batch."""
    return 128 if estimator.batch_size == "auto" else estimator.batch_size


def make_callbacks(estimator, validation, origin, epochs, settle):
    """Our callbacks for one training, by name; `settle` readies the estimator to predict."""
    callbacks, what = {}, "Training"
    if validation is not None:
        X_val, y_val, weight = validation
        what = f"Training, valid_score on {len(y_val)} {origin}"
        X_val = with_names(X_val, estimator)
        if estimator.scoring is None:
            scorer = estimator._validation_scorer(y_val)
        else:
            scorer = check_scorer(estimator, estimator.scoring)
        params = weight_for(scorer, None if np.all(weight == 1) else weight)
        patience = estimator.n_iter_no_change if estimator.early_stopping else None

        def score():
            # Rankings need no threshold.
            ranks = isinstance(scorer, TopKScorer | TopScorer)
            if not ranks and (estimator.scoring is not None or estimator._scores_labels):
                settle()
            try:
                return scorer(estimator, X_val, y_val, **params)
            except AttributeError as error:
                if "predict_proba" not in str(error) or hasattr(estimator, "predict_proba"):
                    raise
                if estimator.calibration is None:
                    raise ValueError(
                        f"scoring={estimator.scoring!r} asks for predict_proba, which there is not "
                        "without calibration: set calibration='temperature' or 'sigmoid', or "
                        "scoring=None"
                    ) from error
            # On the rows that it judges, and for this once: the final one comes after training.
            estimator._calibrate(*validation)
            try:
                return scorer(estimator, X_val, y_val, **params)
            finally:
                del estimator.calibration_

        callbacks["validation"] = Validation(score, patience, estimator.tol)
    if estimator.verbose == 1:
        callbacks["progress"] = ProgressBar(epochs, what)
    return callbacks


def warn_unsettled(estimator, early_stopping):
    """Warn if `max_epochs` ended a training that was still improving."""
    n = estimator.n_iter_no_change
    if early_stopping:
        if not estimator.net_.stop_training:
            warn(
                f"max_epochs={estimator.max_epochs} ended the training before the validation "
                f"score stopped improving for n_iter_no_change={n} epochs: raise max_epochs",
                ConvergenceWarning,
            )
        return
    loss = [row["train_loss"] for row in estimator.history_]
    if len(loss) > 2 * n and loss[-n - 1] - loss[-1] > 0.05 * loss[0]:
        warn(
            f"The training loss still fell from {loss[-n - 1]:.4g} to {loss[-1]:.4g} in the "
            f"last {n} of max_epochs={estimator.max_epochs} epochs: raise max_epochs or "
            f"learning_rate (now {estimator.learning_rate:g})",
            ConvergenceWarning,
        )


def plain_row(row):
    """A row of skorch's history without its batches, but for what each step recorded."""
    steps = {k: np.array(v) for k, v in row["batches"][0].items() if isinstance(v, list)}
    return steps | {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in row.items()
        if name != "batches"
    }

"""What every estimator with a network shares: fit, partial_fit, scores."""

import copy
import functools
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sktopk._common._available import available_if
from sktopk._common._folds_by_content import deal_distinct, digest_of, keys_of_groups
from sktopk._common._input import (
    COLUMNS,
    Labelled,
    check_classes,
    check_labelled,
    check_labels,
    check_validation,
    columns_kept,
    columns_with_missing,
    encode,
    is_stream,
)
from sktopk._common._lazy_rows import LazyRows
from sktopk._common._row_keys import row_keys
from sktopk._common._scoring import weight_for
from sktopk._common._splits import held_out, held_out_groups
from sktopk._common._streams import partial_fit_pieces
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn
from sktopk._training._batches import make_batches
from sktopk._training._callbacks import ProgressBar, Validation, WarmUpEnd
from sktopk._training._folds import Folds
from sktopk._training._net import OURS, DivergedError, Net
from sktopk._training._process import all_objects, check_device, trainable, world_size
from sktopk._training._task import Task
from sktopk._training.checkpoint._checkpoint import Checkpoint, CheckpointError, describe_call
from sktopk._training.criteria._base import RowLoss
from sktopk._training.criteria._members import MemberLoss
from sktopk._training.criteria._warm_up import TwoClassCrossEntropy, WarmUp
from sktopk.losses import cross_entropy_loss
from sktopk.modules import MLP, TabularMLP
from sktopk.modules._members import of_member

from ._parameters import OPTIMIZERS
from ._trained_net import TrainedNet
from ._validation import MemberScores, ValidationScore

# What is fitted and tells of the training, however it ended.
OF_TRAINING = {"net_", "history_", "n_iter_"}
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
    "calibration",
    "checkpoint",
    "checkpoint_every",
    "warm_start",
    "verbose",
    "random_state",
}
# Epochs whose mean score judges the last of them, where members rank the rows that they leave out.
AVERAGED = 3


def has_partial_fit(classifier):
    """Return True unless rows are to be left out, or a loss chosen, which takes all of them."""
    if (reason := classifier._needs_all_data()) is not None:
        raise AttributeError(
            f"partial_fit is not available for {reason}, which needs all data at once"
        )
    return True


@dataclass(frozen=True)
class Training:
    """What one call of `fit` or `partial_fit` trains on, and from where it starts.

    Parameters
    ----------
    given, rows : Labelled
        What the user passed, and of it what is trained on.
    target : ndarray of shape (n_rows,)
        Of the rows trained on, the indices among the classes.
    classes : ndarray of shape (n_classes,)
    epochs : int
    new : bool
        Whether the network is new.
    seed : int
        Of a new one.
    settings : SimpleNamespace
        The parameters that may be "auto", with what that stands for.
    missing : tuple of int
        Columns in which these rows have missing values, where the network takes some.
    partial : bool
        Whether the rows come on top of those of calls before.
    chosen : dict
        Fitted attributes that are known before the training.
    validation : Labelled or None
        Rows to score after each epoch.
    own_validation : bool
        Whether these are rows of the user's, not held out of `given`.
    folds : Folds or None
        Which members of the network leave out which of the rows.
    left_out : str or None
        What is the same where the same rows are left out of a training, or held out of it.
    checkpoint : Checkpoint or None
    """

    given: Labelled
    rows: Labelled
    target: np.ndarray
    classes: np.ndarray
    epochs: int
    new: bool
    seed: int
    settings: SimpleNamespace
    missing: tuple = ()
    partial: bool = False
    chosen: dict = field(default_factory=dict)
    validation: Labelled | None = None
    own_validation: bool = False
    folds: Folds | None = None
    left_out: str | None = None
    checkpoint: Checkpoint | None = None


class NetClassifier(TrainedNet):
    """A classifier that trains a network; subclasses say with which loss.

    What a subclass defines:

    - `_task(dtype)`: the `Task` of its network, from `_task_of`, once `_prepare` was called;
    - `_default_scorer()`: the scorer behind `score`, and of validation rows unless
      `_validation_scorer(y_val, weight)` says otherwise;

    and what it may define besides, when called:

    - `_check_params()`: before anything else, in every fit;
    - `_choose(X, y, sample_weight, X_val, y_val)`: in `fit`, before a new network starts;
      returns fitted attributes that the task depends on, by name, and as `fitted` this
      estimator, if it was fitted on the way;
    - `_prepare(partial)`: with `classes_` and `class_count_` as they are for the training to
      come, to note what the parameters mean for them;
    - `_check_classes(y)`, `_check_validation(X_val, y_val, classes)`: which labels are allowed;
    - `_needs_all_data()`: the setting with which there is no `partial_fit`, in words;
    - `_weights(target, weight)`: what the rows weigh in the loss;
    - `_go_on(count, partial)`: readies a net that was trained before for what may have changed;
    - `_settle(training, final)`: after training, and before predictions within it: what
      predictions need besides the network, such as a threshold;
    - `_decision(scores)`: what `decision_function` makes of the scores of the network;
    - `_judge_out_of_fold(training)`, `_score_by_number(knowing, rows)`: after a cross-fitted
      training, what members say of rows that they have not seen, and the metric of these;
    - `_calibrate(rows, scores=None)`: with `calibration`, after training: sets `calibration_`,
      from the scores that the network, or its members that have not seen them, give to rows;
    - `_batch_size`, `_turned`: rows of a batch; whether the first class is the positive one;

    and attributes of the class:

    - `_multi_class`, `_poor_score`: tags of scikit-learn, whether more than two classes are
      allowed, and whether labels are not what is trained for;
    - `_stratify`: whether rows held out for validation have a share of each class;
    - `_auto_calibration`: what ``calibration="auto"`` fits;
    - `_scores_labels`: whether the metric of `score` needs more than the network's scores.
    """

    _multi_class, _poor_score = True, False
    _stratify = False
    _auto_calibration = "temperature"
    _scores_labels = False

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: RowsLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            Numbers, no infinite ones; missing values and, of frames, columns of categories are
            for the default network (see the notes). Float memory maps are read batch by batch,
            and map-style Datasets of torch, of (row, label, ...) or rows. With `module`, also
            (n_samples, channels, height, width). float64 or float32; anything else becomes
            float64.
        y : array-like of shape (n_samples,), default=None
            Class labels: integers, strings, booleans or categories; at least two classes. None
            reads those of a Dataset: in one pass over its items, or from `targets` (`tensors` of
            a TensorDataset, also in a Subset) if three items show that they are the labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights; weight 2 equals the row given twice, weight 0 its absence.
        X_val, y_val : array-like, default=None
            Validation rows, as X and y, scored after each epoch (see `history_`). With
            ``early_stopping=True`` they take the place of rows held out from X. Labels that y
            has not count as errors, with a warning; some must be labels of y.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not allowed, before any training; rows of a Dataset
            are refused when they are read, during training. ValueError if training diverges,
            with the weights of the last good epoch kept: the loss becomes NaN, infinite or 1e10
            times that of the first batch, or a weight larger than 1e15.
            ValueError if the file `checkpoint` is damaged or belongs to another call.
        OSError
            If `checkpoint` cannot be read or written, before training where that shows, with
            the weights of the last (or, with early stopping, best) epoch kept where it does not.
        KeyboardInterrupt
            At Ctrl-C, with the weights of the last (or, with early stopping, best) epoch kept
            and a warning that says so.

        Notes
        -----
        What "auto" is depends on the network. That of tables, :class:`sktopk.modules.TabularMLP`,
        is there by default; the other values are for a linear model
        (``hidden_layer_sizes=()``), a `module` of yours or MLP (``module__normalize`` and
        ``module__batch_norm`` ask for it), for a network that begins with `partial_fit`, and with
        `n_candidates` unless `n_members` or `module` asks for that of tables.

        ==================  ==================  ==========
        parameter           network of tables   any other
        ==================  ==================  ==========
        hidden_layer_sizes  (128, 128)          (100,)
        n_members           8                   1
        cross_fit           True                False
        warm_up             `max_epochs`        0
        early_stopping      True                False
        optimizer           "adamw"             "adam"
        learning_rate       3e-3                1e-3
        weight_decay        0.3                 1e-4
        batch_size          256                 128
        ==================  ==================  ==========

        So the papers' own training is ``module=MLP``. With a single member there is nothing to
        cross-fit, and rows are held out for early stopping instead; with an optimizer other than
        "adamw" the weight decay is 1e-4.

        The network of tables takes missing values (NaN, None, NA): they count as the median of
        the column, and where the rows trained on have some, an indicator tells them from it. In
        a column in which they had none, a missing value is the median and nothing else. Rows of
        a Dataset must have none.

        It also takes frames with columns of categories: of a categorical dtype, or of texts,
        which are left as numbers where all of them are such. A category of n is an indicator,
        n^(-1/2) in its rows, and so is a missing value in such a column. Of more than 50 the
        rarest share one, which is then that of any category that `fit` has not seen; where there
        are no more, an unseen one is none of them, as is a missing value where `fit` has seen
        none. `categories_` has them.
        What `fit` has found of a column stays: `partial_fit` and warm starts add nothing to it,
        and where `partial_fit` begins, with ``module=TabularMLP``, the first piece decides.
        Any other network refuses both.

        With `checkpoint`, the progress is written before the first epoch and after every
        `checkpoint_every` of them, each time whole or not at all. The same call of fit finds the
        file and goes on from it: network, optimizer, callbacks (learning-rate schedules), random
        generators (also those of ``random_state=None``), hard rows, early stopping and history
        are as they were, so that it ends with the weights of a fit that was never interrupted,
        bit for bit on the same machine with as many threads.

        The same call has the same parameters (but for `checkpoint`, `checkpoint_every` and
        `verbose`; functions go by name and code), the same versions of sktopk, torch, skorch,
        scikit-learn, NumPy and Python, the same y and weights, and X and X_val of the same shape,
        dtype and bytes (of a Dataset, 64 MiB of evenly spaced rows). With
        ``warm_start=True`` it starts from the same fit. Anything else is refused, not restarted.

        The file stands for a fit that is not over. It is removed when fit returns, so that the
        same call then trains anew, as it does without `checkpoint`: save the estimator itself to
        keep it. It is also removed if training diverges, and stays after Ctrl-C and other errors.
        """
        self._check_params()
        return self._fit(X, y, sample_weight, X_val, y_val)

    def _fit(self, X, y, sample_weight, X_val, y_val, groups=None):
        """Do what `fit` does once parameters are checked, with the groups of rows if any."""
        new = not (self.warm_start and hasattr(self, "net_"))
        chosen = self._choose(X, y, sample_weight, X_val, y_val) if new else {}
        if (fitted := chosen.pop("fitted", None)) is not None:
            return self._take_over(fitted, chosen)
        of_tables = self._suits_tables if new else self._of_tables_
        # A loss that was chosen has a say in what "auto" is.
        settings = (self._with(**chosen) if chosen else self)._settings(of_tables)
        if self.cross_fit is True and settings.n_members == 1:
            got = "1" if self.n_members == 1 else "'auto', which is 1 for this network"
            raise ValueError(
                "cross_fit=True needs members, each without a fold of the rows: n_members must "
                f"be at least 2; got {got}"
            )
        with columns_kept(self) as before:
            given = check_labelled(
                self, X, y, sample_weight, groups, reset=new, takes_tables=of_tables
            )
            training = self._plan(given, X_val, y_val, new, settings, chosen)
        self._run(training, before)
        self._warn_unsettled(training)
        with self.net_.isolated():
            out_of_fold = None
            if training.folds is not None:
                out_of_fold = self._judge_out_of_fold(training)
            if self.calibration is not None and training.validation is not None:
                self._calibrate(training.validation)
            elif self.calibration is not None and out_of_fold is not None:
                self._calibrate(*out_of_fold)
        if training.checkpoint is not None:
            training.checkpoint.remove()
        return self

    @available_if(has_partial_fit)
    def partial_fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on a piece of the data.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`. Or X alone, a stream: a generator, DataLoader, IterableDataset or other
            iterable of pieces (X, y) or (X, y, sample_weight); the same as a call for each.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed in the first call unless y has them all.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            As for `fit`, and ValueError if y has a label that the first call did not announce,
            or a piece of a stream has no labels. What pieces before it have taught stays.
        """
        self._check_params()
        return self._partial_fit(X, y, classes, sample_weight)

    def _partial_fit(self, X, y, classes, sample_weight, groups=None):
        """Do what `partial_fit` does once parameters are checked, with groups of rows if any."""
        self._check_partial_fit()
        if is_stream(X):
            return partial_fit_pieces(self, X, y, classes, sample_weight)
        new = not hasattr(self, "net_")
        announced = None
        if classes is not None:
            announced = self._check_classes(check_labels(classes, "classes"), "classes")
        own, random = self.module is TabularMLP, check_random_state(self.random_state)
        with columns_kept(self) as before:
            rows = check_labelled(self, X, y, sample_weight, groups, reset=new, takes_tables=own)
            known = self._known_classes(rows.y, announced, new)
            seed = random.randint(np.iinfo(np.int32).max) if new else 0
            target = encode(known, rows.y)
            # The first piece of a stream does not tell the scales of its columns.
            settings = self._settings(of_tables=False if new else None)
            missing = columns_with_missing(rows.X) if new and self._missing_ is not None else ()
            training = Training(
                rows, rows, target, known, 1, new, seed, settings, missing, partial=True
            )
        self._run(training, before)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = bool(self._suits_tables)
        tags.classifier_tags.multi_class = self._multi_class
        tags.classifier_tags.poor_score = self._poor_score
        return tags

    # Hooks, see the class.

    def _needs_all_data(self):
        """The setting, in words, that `partial_fit` cannot do with; None if there is none."""
        for name in ("early_stopping", "cross_fit"):
            if getattr(self, name) is True:
                return f"{name}=True"
        return None

    def _choose(self, X, y, sample_weight, X_val, y_val):
        return {}

    def _prepare(self, partial):
        pass

    def _check_classes(self, y, name="y"):
        return check_classes(y, name)

    def _weights(self, target, weight):
        return weight

    @property
    def _turned(self):
        """Whether the network learns the first of two classes as the positive one."""
        return hasattr(self, "pos_label_") and bool(self.pos_label_ == self.classes_[0])

    def _n_warm_up(self, training):
        """Epochs of cross-entropy that the net is still to begin with."""
        warm_up = int(training.settings.warm_up)
        return warm_up if warm_up and not self.net_.criterion_.warm else 0

    @property
    def _batch_size(self):
        """Number of rows of a batch."""
        return self._settings().batch_size

    def _settle(self, training, final=True):
        pass

    def _validation_scorer(self, y_val, weight):
        return self._default_scorer()

    # What is checked before a training.

    def _all_classes(self, y):
        """The classes of y, and of that of every other process that trains with this one."""
        return self._check_classes(np.unique(np.concatenate(all_objects(np.unique(y)))))

    def _known_classes(self, y, announced, new):
        """All classes that a training on pieces may meet, those of y among them."""
        known = announced
        if not new:
            known = self.classes_
            if announced is not None and not np.array_equal(announced, known):
                raise ValueError(
                    f"classes must be those of the first call, {known}; got {announced}"
                )
        elif announced is None:
            known = self._all_classes(y)
        unseen = np.setdiff1d(y, known)
        if len(unseen):
            raise ValueError(
                f"y has labels {unseen} that are not among the classes {known}: the first call "
                "says in `classes` which there will be, if not all of them are in its y"
            )
        return known

    def _validation(self, X_val, y_val, classes):
        """Return the validation rows that the user passed, or None."""
        if X_val is None and y_val is None:
            return None
        return self._check_validation(X_val, y_val, classes)

    def _check_validation(self, X_val, y_val, classes):
        """Return the validation rows that the user passed."""
        return check_validation(self, X_val, y_val, classes)

    def _plan(self, given, X_val, y_val, new, settings, chosen):
        """Return what a call of `fit` trains on, and from where it starts."""
        classes = self._all_classes(given.y)
        if not new and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start=True continues with the classes {self.classes_}; y has {classes}"
            )
        validation = self._validation(X_val, y_val, classes)
        checkpoint, random = self._random(given, validation, new)
        seed = random.randint(np.iinfo(np.int32).max)
        rows, own, folds, left_out = given, validation is not None, None, None
        if settings.cross_fit:
            folds = self._folds(given, encode(classes, given.y), settings.n_members)
            left_out = None if folds is None else folds.digest
            if not new and not self._has_left_out(left_out):
                if folds is not None:
                    warn(
                        "warm_start=True goes on with other rows than those before, of which each "
                        "member may have seen some that it would leave out: none is judged by "
                        "rows left out, so that there is no oob_score_, early stopping or "
                        "calibration by them. Fit anew to have these"
                    )
                folds = left_out = None
        # Where no row can be left out, members go without unless it is asked for alone.
        alone = self.early_stopping is True and self.cross_fit is not True
        judged = settings.early_stopping and (alone or not settings.cross_fit)
        if not own and folds is None and (judged or self.calibration not in (None, "auto")):
            if given.groups is None:
                mask = held_out(given.y, self.validation_fraction, random, self._stratify)
            else:
                share = self.validation_fraction
                mask = held_out_groups(given.y, given.groups, share, random)
            rows, validation = given.take(~mask), given.take(mask)
            # Other labels are other rows, and those of a stream or a folder are read but once.
            left_out = digest_of(np.arange(len(mask)), 2 * encode(classes, given.y) + mask)
            if not new and not self._has_left_out(left_out):
                warn(
                    "warm_start=True holds out other rows than those before, of which the network "
                    "may have been trained on some: early stopping and calibration by them are too "
                    "sure. Fit the same rows with a number as random_state, or pass X_val and y_val"
                )
                left_out = None
        takes_missing = new and self._missing_ is not None
        return Training(
            given,
            rows,
            encode(classes, rows.y),
            classes,
            self.max_epochs,
            new,
            seed,
            settings,
            missing=columns_with_missing(rows.X) if takes_missing else (),
            chosen=chosen,
            validation=validation,
            own_validation=own,
            folds=folds,
            left_out=left_out,
            checkpoint=checkpoint,
        )

    def _folds(self, rows, target, n_members):
        """Deal rows into folds by their content, so that they are the same in every fit.

        None if there is nothing to leave out.
        """
        key = keys_of_groups(row_keys(rows.X, seed=0), rows.groups)
        groups = target if self._stratify else np.zeros_like(target)
        for n_folds in range(n_members, 1, -1):
            fold = deal_distinct(key, target, n_folds)
            dealt = fold >= 0
            parts = {*zip(groups[dealt], fold[dealt], strict=True)}
            # Of several classes one may have a single row, which all members see.
            n_groups = len(np.unique(groups[dealt] if groups.max() > 1 else groups))
            if len(parts) == n_folds * max(n_groups, 1):
                counts = self._stratify and target.max() < 2
                return Folds(fold, n_folds, n_members, counts, digest_of(key, fold))
        if self.cross_fit is not True:
            return None
        warn(
            "cross_fit=True needs rows to leave out, at least 2 different ones of "
            f"{'each class' if self._stratify else 'a class'}, which X does not have: every "
            "member is trained on all rows, and none of them is judged by"
        )
        return None

    def _has_left_out(self, left_out):
        """Whether all training so far, in all processes, left out the rows of this digest."""
        return all(all_objects(left_out == getattr(self, "_left_out_", None)))

    def _take_over(self, fitted, chosen):
        """Become what another estimator with such parameters has become."""
        self._forget()
        vars(self).update({name: each for name, each in vars(fitted).items() if name[-1] == "_"})
        vars(self).update(chosen)
        self.net_.params_of_net = self.get_params(deep=False)
        return self

    def _random(self, given, validation, new):
        """The checkpoint of a fit, if it has one, and the generator where that began."""
        if self.checkpoint is None:
            return None, check_random_state(self.random_state)
        call = describe_call(self, None if new else self.net_, given, validation)
        checkpoint = Checkpoint(self.checkpoint, self.checkpoint_every, call)
        return checkpoint, checkpoint.random(self.random_state)

    # The parts of a training.

    def _task_of(
        self,
        dtype,
        criterion,
        n_outputs,
        *,
        score_scale=1.0,
        draws=False,
        net=Net,
        k_ordered=None,
        first=None,
    ):
        """The task of the parameters that all estimators have.

        `dtype` is the name of the float type, `score_scale` what "auto" stands for, `draws`
        whether the loss draws from torch's generator, `net` the class of the net, `k_ordered`
        how many classes the loss puts in front where cross-entropy orders them, `first` the
        cross-entropy of a warm-up, if that is not the plain one of all classes.
        """
        net_params = dict(self.net_params or {})
        of_module = [key for key in net_params if key.startswith("module__")]
        module_params = {key[8:]: net_params.pop(key) for key in of_module}
        module, settings = self.module, self._settings()
        if module is None:
            module = TabularMLP if self._of_tables_ else MLP
            module_params["hidden_layer_sizes"] = settings.hidden_layer_sizes
        elif module in OURS and not isinstance(self.hidden_layer_sizes, str):
            module_params.setdefault("hidden_layer_sizes", self.hidden_layer_sizes)
        if module is TabularMLP:
            if missing := getattr(self, "_missing_", None):
                module_params.setdefault("missing_indicator", missing)
            if hasattr(self, "categories_"):
                module_params.setdefault("n_categories", self.categories_.sizes)
        optimizer = settings.optimizer
        optimizer = OPTIMIZERS[optimizer] if isinstance(optimizer, str) else optimizer
        score_scale = score_scale if isinstance(self.score_scale, str) else self.score_scale
        n_members = int(settings.n_members)
        if n_members > 1:
            criterion = MemberLoss(criterion, n_members, settings.cross_fit)
        if settings.warm_up or k_ordered is not None:
            if first is None and n_outputs == 1:
                first = TwoClassCrossEntropy()
            first = RowLoss(cross_entropy_loss, {}) if first is None else first
            if n_members > 1:
                first = MemberLoss(first, n_members, settings.cross_fit)
            n_heads = 1 if k_ordered is None else 2
            share = float(self.cross_entropy_share)
            criterion = WarmUp(first, criterion, share, score_scale, n_heads)
            if not settings.warm_up:
                criterion.end_warm_up()
            n_outputs, score_scale = n_heads * n_outputs, 1.0
        return Task(
            net=net,
            n_features=self.n_features_in_,
            n_outputs=n_outputs,
            n_classes=len(self.classes_),
            k_ordered=k_ordered,
            n_members=n_members,
            criterion=criterion,
            module=module,
            module_params=module_params,
            score_scale=float(score_scale),
            # Modules of others may draw random numbers in every forward pass.
            draws=draws or module not in OURS,
            optimizer=optimizer,
            learning_rate=float(settings.learning_rate),
            weight_decay=float(settings.weight_decay),
            callbacks=copy.deepcopy(list(self.callbacks or [])),
            net_params=net_params,
            device=check_device(self.device),
            dtype=getattr(torch, dtype),
            precision=getattr(self, self._precision),
            compile=self.compile,
            verbose=self.verbose,
        )

    def _run(self, training, before):
        """Train, with a new net or the one there is; `before` is what a refused one leaves."""
        weight, n_classes = training.rows.weight, len(training.classes)
        count = np.bincount(training.target, weight, minlength=n_classes)
        each = all_objects((training.seed, count, training.missing))
        seeds, counts, missing = zip(*each, strict=True)
        count = sum(counts)
        with trainable():
            if training.new:
                self._start(training, before, count, seeds[0], set().union(*missing))
            elif training.partial:
                count += self.class_count_
            self._train(training, count)

    def _start(self, training, before, count, seed, missing):
        """Put a new net in the place of whatever was fitted before, once nothing is refused."""
        X = training.rows.X
        self._forget(keep=COLUMNS)
        vars(self).update(training.chosen, classes_=training.classes, class_count_=count)
        self._of_tables_ = training.settings.of_tables
        self._note_groups(training.rows.groups)
        if self._missing_ is not None:
            self._missing_ = tuple(sorted(missing))
        try:
            if hasattr(self, "categories_") and world_size() > 1:
                raise ValueError(
                    "X must hold numbers where several processes train together, each of which "
                    "would find other categories: encode them in front"
                )
            self._prepare(training.partial)
            task = self._task(X.dtype.name)
            net = task.net.build(task, seed)
            net.show_rows(X, training.rows.weight)
            with net.isolated():
                net.probe(X)
                net.warn_of_scales(X, getattr(self, "feature_names_in_", None))
            settings = training.settings
            if settings.cross_fit and settings.early_stopping:
                # What its members share would be refused when the first of them is better.
                of_member(net.module_, 0)
            if settings.warm_up and training.partial:
                # A stream has no end at which a phase of it could begin.
                net.criterion_.end_warm_up()
        except BaseException:
            self.__dict__ = before
            raise
        net.params_of_net = self.get_params(deep=False)
        self.net_ = net

    def _go_on(self, count, partial):
        """Ready the net for more training with what may have changed since the last one."""
        net, then = self.net_, self.net_.params_of_net
        now = self.get_params(deep=False)
        for name, value in now.items():
            if name not in CHANGEABLE and not _same(value, then[name]):
                raise ValueError(
                    f"a net that was started with {name}={then[name]!r} cannot go on with "
                    f"{name}={value!r}: set warm_start=False and fit anew"
                )
        rates = {"learning_rate": "lr", "weight_decay": "optimizer__weight_decay"}
        changed = [name for name in rates if now[name] != then[name]]
        if changed:
            settings = vars(self._settings())
            values = {rates[name]: float(settings[name]) for name in changed}
            net.set_params(**values)
            # set_params reaches the optimizer there is; this, one made anew.
            vars(net).update(values)
            if "lr" in values:
                for group in net.optimizer_.param_groups:
                    group["initial_lr"] = group["lr"]
                net.scale_rate(net.criterion_.rate)
            then.update({name: now[name] for name in changed})
        for name in ("calibration_", "oob_decision_function_", "oob_score_"):
            vars(self).pop(name, None)
        self.class_count_ = count
        self._prepare(partial)

    def _train(self, training, count):
        """Train the net, which is new or goes on."""
        net, ended, taken_back = self.net_, False, False
        before = self._snapshot()
        try:
            if not training.new:
                self._note_groups(training.rows.groups)
                self._go_on(count, training.partial)
            self._left_out_ = training.left_out
            rows, validation = training.rows, training.validation
            target, count = training.target, self.class_count_
            if turned := self._turned:
                target, count = turn(target), count[::-1]
            data = {"X": rows.X, "y": target, "weight": rows.weight}
            if validation is not None:
                X_val = validation.X
                if not isinstance(X_val, LazyRows):
                    X_val = X_val.astype(self._numpy_dtype(), copy=False)
                y_val = encode(self.classes_, validation.y)
                data |= {"X_val": X_val, "y_val": turn(y_val) if turned else y_val}
            callbacks = self._callbacks_of(training)
            size, least = training.settings.batch_size, None
            if net.n_outputs == 1:
                least = self.min_positives
            if training.folds is None:
                weight = self._weights(target, rows.weight)
            else:
                weight = training.folds.own_weights(target, rows.weight, self._weights)
            batches = make_batches(
                net,
                rows.X,
                target,
                weight,
                count,
                batch_size=size,
                min_positives=least,
                resumed=training.partial,
                folds=training.folds,
                groups=rows.groups,
            )
            n_epochs = training.epochs + self._n_warm_up(training)
            try:
                net.train(batches, n_epochs, callbacks, training.checkpoint, **data)
                batches.carry()
            finally:
                net.criterion_.set_groups(None)
            ended = True
            if "warm_up" in callbacks and (said := callbacks["warm_up"].no_gain(net)):
                if not isinstance(self.warm_up, str):
                    warn(said)
                elif self.verbose:
                    # Nothing is lost: the best epoch of both phases is kept.
                    print(said)
        except BaseException as error:
            # Either weights that were good are back, or there is no fit.
            interrupted = isinstance(error, DivergedError | KeyboardInterrupt | CheckpointError)
            if training.checkpoint is not None and isinstance(error, DivergedError):
                # It would diverge again.
                training.checkpoint.remove()
            if not net.history_ or (training.new and not interrupted):
                self._forget()
            if before is not None and len(net.history_) == before["n_epochs"]:
                for name in self._fitted_besides_the_net() - before["fitted"].keys():
                    delattr(self, name)
                vars(self).update(before["fitted"])
                net.criterion_.load_state_dict(before["criterion"])
                taken_back = True
            raise
        finally:
            if hasattr(self, "net_"):
                self.history_ = net.plain_history()
                self.n_iter_ = len(self.history_)
                # Other processes do not settle while this one breaks off.
                if ended or (world_size() == 1 and not taken_back):
                    with net.isolated():
                        self._settle(training, final=True)

    def _snapshot(self):
        """What more data change besides weights, to be taken back if no epoch is trained."""
        n_epochs = len(self.net_.history_)
        if n_epochs == 0:
            return None
        fitted = {name: getattr(self, name) for name in self._fitted_besides_the_net()}
        criterion = copy.deepcopy(self.net_.criterion_.state_dict())
        return {"n_epochs": n_epochs, "fitted": fitted, "criterion": criterion}

    def _fitted_besides_the_net(self):
        """Names of what is fitted, but for what tells of the training."""
        return {name for name in vars(self) if name.endswith("_")} - OF_TRAINING

    def _callbacks_of(self, training):
        """Our callbacks for one training, by name."""
        callbacks, what, validation = {}, "Training", training.validation
        if validation is not None:
            origin = "X_val" if training.own_validation else "rows held out of X"
            what = f"Training, valid_score on {len(validation.y)} {origin}"
            score = ValidationScore(self, validation, lambda: self._settle(training, final=False))
            patience = self.n_iter_no_change if training.settings.early_stopping else None
            callbacks["validation"] = Validation(score, patience, self.tol)
        elif training.folds is not None and training.settings.early_stopping:
            what = "Training, valid_score on the rows that members leave out"
            settle = functools.partial(self._settle, training, final=False)
            score = MemberScores(self, training.rows, training.folds, settle)
            # The positives of a fold may be few; of labels every row has one.
            n_averaged = AVERAGED if self.net_.n_outputs == 1 else 1
            callbacks["validation"] = Validation(score, self.n_iter_no_change, self.tol, n_averaged)
        if n_warm_up := self._n_warm_up(training):
            callbacks["warm_up"] = WarmUpEnd(n_warm_up, callbacks.get("validation"))
        if self.verbose == 1:
            callbacks["progress"] = ProgressBar(training.epochs + n_warm_up, what)
        return callbacks

    def _judge_out_of_fold(self, training):
        """Set what the members say of rows that they have not seen; returns `_out_of_fold`."""
        rows, of_members = self._out_of_fold(training)
        scores = self._answered(of_members)
        y_score = self._decision(scores)
        known = training.folds.fold >= 0
        of_all = np.full((len(known), *y_score.shape[1:]), np.nan, y_score.dtype)
        of_all[known] = y_score
        self.oob_decision_function_ = training.given.as_given(of_all)
        self.oob_score_ = self._score_by_number(self._knowing(scores), rows)
        return rows, of_members

    def _score_by_number(self, knowing, rows):
        """The metric of `score` of rows, from an estimator that knows them by number."""
        scorer = self._default_scorer()
        weight = weight_for(scorer, rows.weight)
        return scorer(knowing, np.arange(len(rows.y)), rows.y, **weight)

    def _out_of_fold(self, training):
        """The rows that some members have not seen, and the scores that these give them."""
        rows, folds = self.net_.rows(training.rows.X), training.folds
        known = folds.fold >= 0
        return training.rows.take(known), self.net_.score_out_of_fold(rows, folds)[known]

    def _answered(self, scores):
        """Scores as `_scores` returns them, from those of the members that had not seen a row."""
        scores = self.net_.answer(scores).numpy()
        return scores[:, 0] if self.net_.n_scores == 1 else scores

    def _warn_unsettled(self, training):
        """Warn if `max_epochs` ended a training that was still improving."""
        n = self.n_iter_no_change
        judged = training.validation is not None or training.folds is not None
        settings = training.settings
        if judged and settings.early_stopping:
            if not self.net_.stop_training:
                warn(
                    f"max_epochs={self.max_epochs} ended the training before the validation "
                    f"score stopped improving for n_iter_no_change={n} epochs: raise max_epochs",
                    ConvergenceWarning,
                )
            return
        loss = [row["train_loss"] for row in self.history_[settings.warm_up :]]
        if len(loss) > 2 * n and loss[-n - 1] - loss[-1] > 0.05 * loss[0]:
            warn(
                f"The training loss still fell from {loss[-n - 1]:.4g} to {loss[-1]:.4g} in the "
                f"last {n} of max_epochs={self.max_epochs} epochs: raise max_epochs or "
                f"learning_rate (now {float(settings.learning_rate):g})",
                ConvergenceWarning,
            )

    def _note_groups(self, groups):
        """Remember how many groups the loss has, if it has some."""
        vars(self).pop("n_groups_", None)
        if groups is not None:
            self.n_groups_ = len(np.unique(groups))

    def _forget(self, keep=()):
        """Become unfitted."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            if name not in keep:
                delattr(self, name)


def turn(index):
    """Indices of two classes the other way round; -1, for neither, stays."""
    return np.where(index < 0, index, 1 - index)


def _same(a, b):
    """Whether two values of a parameter, which may hold arrays, are equal."""
    if isinstance(a, np.ndarray | torch.Tensor) or isinstance(b, np.ndarray | torch.Tensor):
        return np.array_equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or bool(a == b)

"""The training engine: everything that knows skorch."""

import inspect
import os
import sys
import threading
import weakref
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

import numpy as np
import torch
from scipy.sparse import issparse
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, PassthroughScoring, PrintLog
from skorch.dataset import Dataset

from sktopk._common._lazy_rows import LazyRows
from sktopk._common._scalars import check_call
from sktopk._common._warnings import warn
from sktopk.modules import MLP, Members, ScaledScores, TabularMLP
from sktopk.modules._members import Answer, mean_of_members, member, packs_members
from sktopk.modules._mlp import takes_sparse

from ._batches import Rows
from ._process import (
    all_objects,
    in_parallel,
    isolated_rng,
    note_threads,
    rng_state,
    share_buffers,
    total,
    world_size,
)
from ._state import copied_weights

# Networks that draw from a generator of their own.
OURS = (MLP, TabularMLP)
# Rows from which a network learns the scales of columns.
MOST_SHOWN = 1 << 15
_TURNS = weakref.WeakSet()
# The net, and the member of it, whose scores count alone in this thread.
_ONLY = ContextVar("_ONLY", default=(None, None))
# Rows in which to look for columns that are too narrow beside others, and what is too narrow.
MOST_COMPARED = 1 << 12
MOST_APART = 1e4
# Rows to try on a user's network whether it scales them, and how much less than by the wide column
# its scores may move by the narrow one.
MOST_TRIED, LEAST_SEEN = 32, 100
# Training has diverged where the loss of a batch is as many times that of the first, or a weight
# as large: float64 holds numbers that float32 does not, of networks that are as useless.
MOST_GROWTH = 1e10
MOST_WEIGHT = 1e15


class DivergedError(ValueError):
    """The loss or the weights stopped being finite."""


class Turns:
    """Whose turn it is with a module: one step of its training, or any number of predictions.

    Whether batch normalisation learns from its rows and dropout drops is a mode of the module,
    which all threads share. So a step waits for the predictions that have begun, and these wait
    for the step; the step finds every mode as the one before left it.

    All that is held is held by `with` on locks written in C: Ctrl-C leaves none of them locked.
    """

    def __init__(self):
        # The training has the door while a step runs; it may predict in its midst.
        self.door = threading.RLock()
        # A lock for each prediction, free once that is over.
        self.predictions, self.frozen = set(), None
        _TURNS.add(self)

    def __reduce__(self):
        # A copy belongs to a module of its own.
        return Turns, ()

    def train(self, module, step, *args):
        """Return ``step(*args)``, run alone, in the modes of training."""
        with self.door:
            for running in tuple(self.predictions):
                with running:
                    self.predictions.discard(running)
            if self.frozen is not None:
                module.train()
                for part in self.frozen:
                    part.training = False
                self.frozen = None
            return step(*args)

    def predict(self, module, forward):
        """Return ``forward()``, run beside other predictions alone, in the mode of evaluation."""
        running = threading.Lock()
        with running:
            with self.door:
                parts = list(module.modules())
                if any(part.training for part in parts):
                    self.frozen = [part for part in parts if not part.training]
                    module.eval()
                self.predictions.add(running)
            try:
                return forward()
            finally:
                self.predictions.discard(running)


def _begin_child():
    """Let go, in a process just forked, of what is held by threads that it does not have."""
    for turns in list(_TURNS):
        turns.__init__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


class EpochLog(PrintLog):
    """A line per epoch, with the best values in colour on a terminal alone.

    As NO_COLOR asks for (https://no-color.org), there are none if that variable is set.
    """

    def format_row(self, row, key, color):
        """Format a value of the line; see the base."""
        if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
            row = {name: value for name, value in row.items() if not name.endswith("_best")}
        return super().format_row(row, key, color)


class Net(NeuralNetClassifier):
    """skorch's net on encoded labels, without its per-row loading and per-step bookkeeping.

    Callbacks and history live on. The history holds one batch per epoch, which carries the
    epoch's mean loss: callbacks read it where skorch leaves the last batch.

    A subclass may define `check_last_layer(rows)`, which refuses a network that it cannot train,
    and `mean_loss(X, y)`, where that of validation rows takes more than their scores.
    """

    # In training: the module, with gradients averaged over all processes that train.
    forward_in_training = None
    # and the weights of the rows, for callbacks.
    weight_ = None
    # Loss of the first batch.
    first_loss_ = None

    @classmethod
    def build(cls, task, seed):
        """Return the untrained net of a task, its weights drawn with `seed`."""
        params = {"optimizer__weight_decay": task.weight_decay, "optimizer__fused": True}
        if "optimizer__foreach" in task.net_params:  # the other fast path, which excludes this one
            del params["optimizer__fused"]
        accepted = inspect.signature(task.optimizer).parameters
        params = {k: v for k, v in params.items() if k.split("__")[1] in accepted} | task.net_params
        device = task.device
        # Where nothing draws from torch's generators, which all threads share, they are left alone.
        own = None if task.draws else torch.Generator().manual_seed(seed)
        with isolated_rng(device, seed=seed) if task.draws else nullcontext():
            module = _build_module(task, own).to(task.dtype)
            try:
                net = cls(
                    module,
                    criterion=task.criterion,
                    optimizer=task.optimizer,
                    lr=task.learning_rate,
                    callbacks=task.callbacks,
                    classes=np.arange(task.n_classes),
                    train_split=None,
                    verbose=task.verbose,
                    device=str(device),
                    use_caching=False,
                    **params,
                ).initialize()
            except (TypeError, ValueError) as error:
                if not task.net_params:
                    raise
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"net_params={task.net_params!r} are not allowed: {error}") from error
            net.own_generator = own
            if task.draws:
                net.rng_state = rng_state(device)
        net.dtype, net.draws, net.precision = task.dtype, task.draws, task.precision
        net.n_outputs, net.n_members = task.n_outputs, task.n_members
        net.k_ordered = task.k_ordered
        net.turns = Turns()
        net.generator = torch.Generator().manual_seed(seed)
        # Noise is not the order of the rows: a seed of its own.
        if net.criterion_.draws:
            net.criterion_.seed(torch.Generator(device).manual_seed(seed + 1))
        if task.compile:
            net.module_.compile()
            if net.criterion_.is_mean:
                net.criterion_.compile()
        net.plain = not task.compile and task.precision is None and device.type == "cpu"
        return net

    def probe(self, X):
        """Check what the network returns for two rows."""
        rows = self.rows(X[:2])
        n_rows, values = len(rows), rows[:]
        self.module_.eval()
        try:
            # Not by a call, which would compile a graph for two rows.
            with self.autocast():
                scores = self.network.forward(values)
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
        of_members = n_rows, self.n_members, self.n_outputs
        if self.n_members > 1 and tuple(scores.shape) != of_members:
            advice = ""
            if isinstance(self.network, Members) and tuple(scores.shape[-2:]) == of_members[1:]:
                advice = (
                    f". It was built {self.n_members} times, and each returns the scores of all: "
                    "give the callable a parameter n_members, and it is built once"
                )
            raise ValueError(
                f"module with n_members={self.n_members} must return scores of shape (n_samples, "
                f"{self.n_members}, {self.n_outputs}), those of each member; got shape "
                f"{tuple(scores.shape)} for {n_rows} rows{advice}"
            )
        one = self.n_members == 1 and self.n_outputs == 1
        allowed = {(n_rows, self.n_outputs), (n_rows,) if one else None}
        if self.n_members == 1 and tuple(scores.shape) not in allowed:
            raise ValueError(
                f"module must return scores of shape (n_samples, {self.n_outputs}), one per "
                f"class, or per row of two classes that are ranked; got shape "
                f"{tuple(scores.shape)} for {n_rows} rows"
            )
        of_one = scores if self.n_members == 1 else scores.mean(1)
        if self.criterion_.takes_scores and _are_probabilities(of_one):
            warn(
                "module returns what looks like probabilities, rows of nonnegative numbers with "
                "a sum of 1; it must return scores, as the losses take them: leave out the "
                "softmax at its end (torch.nn.Softmax)"
            )
        self.check_last_layer(rows)

    @property
    def rng_state(self):
        """State of the generators that the network draws from, torch's or one of its own."""
        own = self.own_generator
        return self.shared_state if own is None else [own.get_state()]

    @rng_state.setter
    def rng_state(self, state):
        if self.own_generator is None:
            self.shared_state = state
        else:
            self.own_generator.set_state(state[0])

    def isolated(self):
        """Where draws are the network's own: torch's generators stay as they are."""
        if not self.draws:
            return nullcontext()
        return isolated_rng(torch.device(self.device), state=self.rng_state)

    @property
    def network(self):
        """What the task's `module` built, without the factor on its scores."""
        module = self.module_
        if isinstance(module, Members):
            return Members(map(_unscaled, module))
        return _unscaled(module)

    @property
    def answer(self):
        """What is made of the scores of several members, and of two heads."""
        return Answer(self.k_ordered)

    @property
    def n_scores(self):
        """Columns of the scores of `score_rows`."""
        return self.n_outputs // self.answer.n_heads

    def check_last_layer(self, rows):
        """Raise unless the network ends as steps of this net need it; any will do."""

    def rows(self, X, resident=False):
        """Rows of X for the network: sparse where its first layer takes them, and is faster so.

        `resident` ones, which are those of batches, are dense if a user's callback sees them.
        """
        sparse = hasattr(X, "nnz") and self.plain and takes_sparse(self.module_)
        sparse = sparse and world_size() == 1 and not (resident and self._shows())
        device = torch.device(self.device)
        return Rows(X, device, self.dtype, resident=resident, sparse=sparse)

    def get_default_callbacks(self):
        loss = PassthroughScoring("train_loss", on_train=True)
        log = [("print_log", EpochLog())] if self.verbose > 1 else []
        return [("epoch_timer", EpochTimer()), ("train_loss", loss), *log]

    def train(
        self, batches, epochs, callbacks, checkpoint=None, *, X, y, weight, X_val=None, y_val=None
    ):
        """Train for `epochs` more epochs on `batches`; the data are for the callbacks.

        They find the weights of the rows as `weight_`, a Tensor.

        A `checkpoint` keeps the progress, and that of an earlier run counts.

        `callbacks` (a dict by name) join the net's own for this training only. It ends early
        when `stop_training` is set or a user's callback raises KeyboardInterrupt, as skorch's
        early stopping does. If training diverges or Ctrl-C interrupts it, the weights of the
        last epoch in which all was finite are put back before the exception goes on.
        """
        own = self.callbacks_
        # Before the net's own: a user's callback may stop at our validation score.
        self.callbacks_ = [*callbacks.items(), *own]
        self.stop_training, self.weight_ = False, torch.from_numpy(weight)
        last_good = copied_weights(self.module_) if self.history_ else None
        data = {
            "dataset_train": Dataset(X, y),
            "dataset_valid": None if X_val is None else Dataset(X_val, y_val),
        }
        device = torch.device(self.device)
        with self.isolated():
            note_threads()
            self.notify("on_train_begin", X=X, y=y)
            try:
                # A bound method: skorch takes a module for one more part of the net.
                self.forward_in_training = in_parallel(self.module_).__call__
                done = 0 if checkpoint is None else checkpoint.begin(self)
                last_good = copied_weights(self.module_) if done else last_good
                for epoch in range(done, 0 if self.stop_training else epochs):
                    self.notify("on_epoch_begin", **data)
                    self.run_single_epoch(batches, training=True, prefix="train", step_fn=self.step)
                    self.alone(share_buffers, self.module_)
                    last_good = copied_weights(self.module_)
                    self._end_epoch(own, data)
                    self.stop_training = any(all_objects(self.stop_training))
                    if checkpoint is not None:
                        checkpoint.end_epoch(self, epoch + 1)
                    if self.stop_training:
                        break
            except BaseException as error:
                self._put_back(last_good, error)
                raise
            finally:
                self.notify("on_train_end", X=X, y=y)
                self.callbacks_ = own
                self.forward_in_training = self.weight_ = self.first_loss_ = None
                if self.draws:
                    self.rng_state = rng_state(device)

    def _end_epoch(self, own, data):
        self.on_epoch_end(self, **data)
        users = [callback for _, callback in own]
        for _, callback in self.callbacks_:
            try:
                callback.on_epoch_end(self, **data)
            except KeyboardInterrupt:
                if callback not in users:
                    raise
                self.stop_training = True

    def _put_back(self, weights, error):
        """Take back the epoch that broke off."""
        if weights is None:
            self.history_.clear()
            return
        if "train_loss" not in self.history_[-1]:
            self.history_.pop()
        self.alone(self.module_.load_state_dict, weights)
        if isinstance(error, DivergedError):
            # Its moments are no longer finite.
            self.initialize_optimizer()
        elif isinstance(error, KeyboardInterrupt):
            warn(
                f"Training interrupted after epoch {len(self.history_)}: the network keeps its "
                "weights (the best so far with early_stopping=True); what was fitting it, such "
                "as a search, a vote or a desk, keeps what it had before",
            )

    def initialize_optimizer(self, *args, **kwargs):
        """Make the optimizer anew, at the learning rate of the phase; see the base."""
        super().initialize_optimizer(*args, **kwargs)
        self.scale_rate(self.criterion_.rate)
        return self

    def scale_rate(self, factor):
        """Multiply the learning rate, and where schedules of it begin."""
        for group in self.optimizer_.param_groups:
            for name in {"lr", "initial_lr", "min_lr", "max_lr"} & group.keys():
                group[name] *= factor
        for _, callback in self.callbacks_:
            scheduler = getattr(callback, "lr_scheduler_", None)
            for name in ("base_lrs", "max_lrs"):
                if hasattr(scheduler, name):
                    setattr(scheduler, name, [factor * rate for rate in getattr(scheduler, name)])

    def mean_loss(self, X, y):
        """Mean loss of rows whose class was seen in training, without drawing from `noise`."""
        noise = self.criterion_.generator
        state = None if noise is None else noise.get_state()
        total, known = 0.0, y >= 0
        rows = self.rows(X)
        chunks = ((chunk, mean_of_members(each)) for chunk, each in self.score_members(rows))
        if not self.criterion_.is_mean:
            # Scores of one number a row, and a loss that has no parts.
            chunks = [(slice(None), torch.cat([scores for _, scores in chunks]))]
        for chunk, scores in chunks:
            mask = torch.from_numpy(known[chunk]).to(scores.device)
            if mask.any():
                target = torch.from_numpy(y[chunk]).to(scores.device)
                total += self.criterion_(scores[mask], target[mask]).item() * int(mask.sum())
        if state is not None:
            noise.set_state(state)
        return total / max(int(known.sum()), 1)

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Run `step_fn` over the batches and record their mean loss, once."""
        self.alone(self.module_.train)
        begin = self._listeners("on_batch_begin")
        end = self._listeners("on_batch_end")
        losses, sizes, trace = [], [], self.criterion_.trace
        for values in trace.values():
            values.clear()
        # Before the first step: schedules that step with the batches record their rate in it.
        self.history.new_batch()
        for batch in iterator:
            for callback in begin:
                callback.on_batch_begin(self, batch=batch, training=training)
            loss, scores = self.alone(step_fn, batch)
            losses.append(loss)
            sizes.append(len(scores))
            for callback in end:
                callback.on_batch_end(
                    self, batch=batch, training=training, loss=loss, y_pred=scores
                )
        n_rows = total(np.array(sizes))
        losses = total(torch.stack(losses).double().cpu().numpy() * sizes) / n_rows
        self._check_finite(torch.from_numpy(losses))
        mean = losses @ n_rows / n_rows.sum()
        self.history.record_batch(f"{prefix}_loss", mean.item())
        self.history.record_batch(f"{prefix}_batch_size", sum(sizes))
        self.history.record(f"{prefix}_batch_count", len(sizes))
        for name, values in trace.items():
            if values:
                values = torch.cat([torch.as_tensor(value) for value in values])
                self.history.record_batch(name, values.double().tolist())

    def step(self, batch, n_scores=None):
        """One step of the optimizer; returns the loss, detached, and the scores.

        `n_scores` is how many a row has, if not one per output.
        """
        rows, (target, weight) = batch
        n_scores = self.n_members * self.n_outputs if n_scores is None else n_scores
        listeners = self._listeners("on_grad_computed")
        result, lengths = [], {}
        trace = self.criterion_.trace

        def closure():
            self.optimizer_.zero_grad()
            with self.autocast():
                scores = (self.forward_in_training or self.module_)(rows)
            if self.precision is not None:
                scores = scores.to(self.dtype)
            if scores.numel() != len(rows) * n_scores:
                raise ValueError(
                    f"module must return scores of shape ({len(rows)}, {n_scores}) in "
                    f"training, too; got shape {tuple(scores.shape)}"
                )
            loss = self.criterion_.backward(scores, target, weight)
            for callback in listeners:
                callback.on_grad_computed(
                    self,
                    named_parameters=list(self.module_.named_parameters()),
                    batch=batch,
                    training=True,
                )
            # An optimizer that evaluates several times reports its first value.
            if not result:
                result.extend((loss, scores))
                lengths.update({name: len(values) for name, values in trace.items()})
            return loss

        self.optimizer_.step(closure)
        for name, length in lengths.items():
            del trace[name][length:]
        return result

    def plain_history(self):
        """The rows of skorch's history without their batches, but for what each step recorded."""
        return [_plain_row(row) for row in self.history_.to_list()]

    def autocast(self):
        """Context of the forward pass: automatic mixed precision, or nothing."""
        if self.precision is None:
            return nullcontext()
        device = torch.device(self.device).type
        return torch.autocast(device, dtype=getattr(torch, self.precision))

    def score_rows(self, rows, in_order=False):
        """Yield ``(slice, scores)`` over chunks of `rows`, scores in the network's float type.

        Those of several members are their mean: of scores of classes it is that of their
        log-probabilities, up to a number for each row. Those of two heads become one, see
        `Answer`; `in_order` are those of the second alone.
        """
        only, m = self.is_limited, _ONLY.get()[1]
        alone = member(self.module_, m) if only and self.plain else None
        for chunk, scores in self.score_members(rows, alone):
            if only and alone is None:
                scores = scores[:, m]
            yield chunk, self.answer.in_order(scores) if in_order else self.answer(scores)

    def score_members(self, rows, module=None):
        """Yield ``(slice, scores)`` as `score_rows`, with what the module, or this one, returns."""
        note_threads()
        module = self.module_ if module is None else module
        for chunk in rows.chunks(self.n_members * self.n_outputs):
            values = rows[chunk]

            def forward(values=values):
                with torch.inference_mode(), self.autocast():
                    return module(values)

            yield chunk, self.evaluated(forward).to(self.dtype)

    def alone(self, step, *args):
        """Return ``step(*args)``, which changes the module, while no other thread uses it."""
        return self.turns.train(self.module_, step, *args)

    def evaluated(self, forward):
        """Return ``forward()``, which predicts, while no other thread changes the module."""
        return self.turns.predict(self.module_, forward)

    def score_out_of_fold(self, rows, folds):
        """Scores by the members that have not seen a row; NaN if all have.

        They have shape (n_samples, n_outputs): two heads are not one yet.
        """
        scores = []
        for chunk, of_members in self.score_members(rows):
            share = folds.unseen(chunk).to(self.dtype)
            mean = torch.einsum("nmc,nm->nc", of_members.cpu(), share)
            seen = share.sum(1, keepdim=True) == 0
            scores.append(mean.masked_fill(seen, torch.nan))
        return torch.cat(scores)

    def score_by_member(self, rows):
        """Scores of shape (n_samples, n_members), of networks with one score a row."""
        return torch.cat([scores[..., 0].cpu() for _, scores in self.score_members(rows)])

    @property
    def is_limited(self):
        """Whether rows are scored with one member alone."""
        return _ONLY.get()[0] is self

    @contextmanager
    def only(self, m):
        """Score rows with member m alone."""
        before = _ONLY.set((self, m))
        try:
            yield
        finally:
            _ONLY.reset(before)

    def show_rows(self, X, weight):
        """Let the networks that ask for it, by a method `from_data`, see rows of the training.

        Of more than `MOST_SHOWN` they see so many, spaced evenly. A TabularMLP, which is ours,
        also sees what they weigh.
        """
        network = self.network
        each = network if isinstance(network, Members) else [network]
        asking = [one for one in each if hasattr(one, "from_data")]
        if asking:
            index = np.linspace(0, X.shape[0] - 1, min(X.shape[0], MOST_SHOWN)).round()
            index = torch.from_numpy(index).long()
            shown, weight = Rows(X, torch.device("cpu"), self.dtype)[index], weight[index.numpy()]
            for one in asking:
                more = [torch.from_numpy(weight)] if isinstance(one, TabularMLP) else []
                one.from_data(shown, *more)
            share_buffers(self.module_)

    def warn_of_scales(self, X, names=None):
        """Warn of columns, with `names` or None, whose scales are too far apart for the network.

        An MLP takes columns as they are, also of sparse rows; whether another network does, other
        than ours, is tried on dense ones.
        """
        network = self.network
        one = network[0] if isinstance(network, Members) else network
        if isinstance(one, TabularMLP) or isinstance(X, LazyRows) or len(X.shape) != 2:
            return
        rows = X[:: -(-X.shape[0] // MOST_COMPARED)]
        place, spread = _most_and_least_spread(rows)
        if spread[0] <= MOST_APART * spread[1]:
            return
        if type(one) is not MLP and (issparse(X) or self._sees(rows, *place)):
            return
        wide, narrow = (each if names is None else repr(names[each]) for each in place)
        warn(
            f"Column {wide} of X spreads over {spread[0] * 2:.2g}, column {narrow} over "
            f"{spread[1] * 2:.2g}, and nothing scales them: the network hardly sees the narrow "
            "one. Put a StandardScaler in front: sktopk.make_pipeline(StandardScaler(), ...)"
        )

    def _sees(self, rows, wide, narrow):
        """Tell whether the narrow column moves the scores of the untrained network as well.

        By a hundredth of what the wide one does, each from its lowest value to its highest.
        """
        others = rows[:: -(-len(rows) // MOST_TRIED)]
        tried = []
        for column in (wide, narrow):
            for end in (rows[:, column].min(), rows[:, column].max()):
                tried.append(others.copy())
                tried[-1][:, column] = end
        values, network = self.rows(np.concatenate(tried))[:], self.network
        buffers = [each.clone() for each in network.buffers()]
        network.eval()
        for part in network.modules():
            # What keeps statistics of rows, like batch normalisation, trains with those of a batch.
            part.training = any(True for _ in part.buffers(recurse=False))
        with torch.no_grad(), self.autocast():
            # Not by a call, as in `probe`.
            scores = network.forward(values).double().view(4, len(others), -1)
            for each, before in zip(network.buffers(), buffers, strict=True):
                each.copy_(before)
        network.eval()
        by_wide, by_narrow = (float((scores[i] - scores[i + 1]).abs().max()) for i in (0, 2))
        return by_narrow * LEAST_SEEN >= by_wide

    def _listeners(self, method):
        """Callbacks that do something at `method`."""
        silent = getattr(Callback, method)
        return [cb for _, cb in self.callbacks_ if getattr(type(cb), method) is not silent]

    def _shows(self):
        """Tell whether code of the user's is given batches; that of skorch needs no rows."""
        methods = ("on_batch_begin", "on_batch_end", "on_grad_computed")
        heard = [getattr(type(cb), name) for name in methods for cb in self._listeners(name)]
        places = [getattr(each, "__module__", "") for each in heard]
        return not all(place.startswith(("skorch.", "sktopk.")) for place in places)

    def _check_finite(self, losses):
        if self.first_loss_ is None:
            self.first_loss_ = losses[0].abs().clamp(min=1).item()
        refused = (~(losses.abs() < MOST_GROWTH * self.first_loss_)).nonzero()
        if len(refused):
            what = f"the loss became {losses[refused[0]].item():g} in batch {int(refused[0]) + 1}"
        elif not all(map(_is_bounded, self.module_.parameters())):
            what = f"weights are not finite or larger than {MOST_WEIGHT:g} at the end"
        else:
            return
        ways = [f"lower learning_rate (now {self.lr:g})", "scale the features (StandardScaler)"]
        decay = getattr(self, "optimizer__weight_decay", 0)
        if decay > 1:
            ways.append(f"lower weight_decay (now {decay:g})")
        scale = next(
            (each.scale for each in self.module_.modules() if type(each) is ScaledScores), 1
        )
        if not 1e-4 < scale < 1e4:
            ways.append(f"set score_scale (now {scale:g}) nearer to 1")
        ways.extend(self.criterion_.remedies)
        raise DivergedError(
            f"Training diverged: {what} of epoch {len(self.history)}. Try to {' or '.join(ways)}"
        )


def _is_bounded(parameter):
    """Tell whether a parameter is finite and, where it is trained, not as large as a diverged."""
    return bool((parameter.abs() < (MOST_WEIGHT if parameter.requires_grad else torch.inf)).all())


def _plain_row(row):
    steps = {k: np.array(v) for k, v in row["batches"][0].items() if isinstance(v, list)}
    return steps | {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in row.items()
        if name != "batches"
    }


def _unscaled(module):
    return module.module if isinstance(module, ScaledScores) else module


def weight_shapes(task):
    """Shapes of the weights of a network by name, found without memory for them.

    None if its module cannot be built so.
    """
    try:
        with torch.device("meta"):
            module = _build_module(task, None)
    except Exception:  # of anybody's code
        return None
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def _build_module(task, generator):
    n_members = task.n_members
    if n_members == 1:
        return _build_member(task, generator, {})
    if packs_members(task.module):
        return _build_member(task, generator, {"n_members": n_members})
    return Members(_build_member(task, generator, {}) for _ in range(n_members))


def _build_member(task, generator, more):
    params = task.module_params | more
    # The same weights, whatever torch's default dtype is.
    own = {"dtype": torch.float32, "generator": generator} if task.module in OURS else {}
    try:
        module = task.module(task.n_features, task.n_outputs, **own, **params)
    except TypeError:
        check_call(task.module, "module", "n_features", "n_outputs", **params)
        raise
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must build an nn.Module; got {type(module).__name__}")
    if any(torch.nn.parameter.is_lazy(p) for p in module.parameters()):
        raise ValueError("module must not have lazy layers: give each layer its input size")
    if task.score_scale == 1:
        return module
    return ScaledScores(module, task.n_outputs, task.score_scale)


def _are_probabilities(scores):
    """Tell whether rows of several scores look like the output of a softmax."""
    if scores.ndim < 2 or scores.shape[1] < 2:
        return False
    sums = scores.detach().double().sum(1)
    return bool(((sums - 1).abs().max() < 1e-2) & (scores.min() >= 0))


def _most_and_least_spread(rows):
    """The two columns of the widest and the narrowest range but 0, and halves of their ranges."""
    ends = rows.max(axis=0), rows.min(axis=0)
    if issparse(rows):
        ends = (each.toarray().ravel() for each in ends)
    highest, lowest = (np.asarray(each, dtype=np.float64) for each in ends)
    # Of halves, whose difference no float exceeds. A constant column has no scale.
    spread = highest / 2 - lowest / 2
    varying = np.flatnonzero(spread > 0)
    if not len(varying):
        return (0, 0), (0.0, 0.0)
    place = [varying[place(spread[varying])] for place in (np.argmax, np.argmin)]
    return place, spread[place]

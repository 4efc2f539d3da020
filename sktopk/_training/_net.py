"""The training engine: everything that knows skorch."""

import inspect
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, PassthroughScoring, PrintLog
from skorch.dataset import Dataset

from sktopk._common._warnings import warn
from sktopk.modules import Members, ScaledScores
from sktopk.modules._members import Answer, mean_of_members, packs_members
from sktopk.modules._mlp import takes_sparse

from ._batches import Rows
from ._process import (
    all_objects,
    check_device,
    in_parallel,
    isolated_rng,
    note_threads,
    rng_state,
    share_buffers,
    total,
    world_size,
)
from ._state import copied_weights

# Rows from which a network learns the scales of columns.
MOST_SHOWN = 1 << 15


class DivergedError(ValueError):
    """The loss or the weights stopped being finite."""


class Net(NeuralNetClassifier):
    """skorch's net on encoded labels, without its per-row loading and per-step bookkeeping.

    Callbacks and history live on. The history holds one batch per epoch, which carries the
    epoch's mean loss: callbacks read it where skorch leaves the last batch.
    """

    # In training: the module, with gradients averaged over all processes that train.
    forward_in_training = None
    # and the weights of the rows, for callbacks.
    weight_ = None
    # The member whose scores count, if it is not the mean of all.
    member = None

    @classmethod
    def build(cls, task, seed):
        """Return the untrained net of a task, its weights drawn with `seed`."""
        params = {"optimizer__weight_decay": task.weight_decay, "optimizer__fused": True}
        if "optimizer__foreach" in task.net_params:  # the other fast path, which excludes this one
            del params["optimizer__fused"]
        accepted = inspect.signature(task.optimizer).parameters
        params = {k: v for k, v in params.items() if k.split("__")[1] in accepted} | task.net_params
        device = check_device(task.device)
        with isolated_rng(device, seed=seed):
            net = cls(
                _build_module(task).to(task.dtype),
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
            net.rng_state = rng_state(device)
        net.dtype, net.draws, net.precision = task.dtype, task.draws, task.precision
        net.n_outputs, net.n_members = task.n_outputs, task.n_members
        net.k_ordered = task.k_ordered
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
        if self.n_members > 1 and tuple(scores.shape) != (n_rows, self.n_members, self.n_outputs):
            raise ValueError(
                f"module with n_members={self.n_members} must return scores of shape (n_samples, "
                f"{self.n_members}, {self.n_outputs}), those of each member; got shape "
                f"{tuple(scores.shape)} for {n_rows} rows"
            )
        one = self.n_members == 1 and self.n_outputs == 1
        allowed = {(n_rows, self.n_outputs), (n_rows,) if one else None}
        if self.n_members == 1 and tuple(scores.shape) not in allowed:
            raise ValueError(
                f"module must return scores of shape (n_samples, {self.n_outputs}), one per "
                f"class, or per row of two classes that are ranked; got shape "
                f"{tuple(scores.shape)} for {n_rows} rows"
            )
        self.check_last_layer(rows)

    @property
    def network(self):
        """What the task's `module` built, without the factor on its scores."""
        module = self.module_
        return module.module if isinstance(module, ScaledScores) else module

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
        sparse = hasattr(X, "nnz") and self.plain and takes_sparse(self.network)
        sparse = sparse and world_size() == 1 and not (resident and self._shows())
        device = torch.device(self.device)
        return Rows(X, device, self.dtype, resident=resident, sparse=sparse)

    def get_default_callbacks(self):
        loss = PassthroughScoring("train_loss", on_train=True)
        log = [("print_log", PrintLog())] if self.verbose > 1 else []
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
        note_threads()
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
        randomness = isolated_rng(device, state=self.rng_state) if self.draws else nullcontext()
        with randomness:
            self.notify("on_train_begin", X=X, y=y)
            try:
                # A bound method: skorch takes a module for one more part of the net.
                self.forward_in_training = in_parallel(self.module_).__call__
                done = 0 if checkpoint is None else checkpoint.begin(self)
                last_good = copied_weights(self.module_) if done else last_good
                for epoch in range(done, 0 if self.stop_training else epochs):
                    self.notify("on_epoch_begin", **data)
                    self.run_single_epoch(batches, training=True, prefix="train", step_fn=self.step)
                    share_buffers(self.module_)
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
                self.forward_in_training = self.weight_ = None
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
        self.module_.load_state_dict(weights)
        if isinstance(error, DivergedError):
            # Its moments are no longer finite.
            self.initialize_optimizer()
        elif isinstance(error, KeyboardInterrupt):
            warn(
                f"Training interrupted after epoch {len(self.history_)}: its weights are kept "
                "(the best so far with early_stopping=True)",
            )

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
        self.module_.train()
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
            loss, scores = step_fn(batch)
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

    def step(self, batch):
        """One step of the optimizer; returns the loss, detached, and the scores."""
        rows, (target, weight) = batch
        listeners = self._listeners("on_grad_computed")
        result, lengths = [], {}
        trace = self.criterion_.trace

        def closure():
            self.optimizer_.zero_grad()
            with self.autocast():
                scores = (self.forward_in_training or self.module_)(rows)
            if self.precision is not None:
                scores = scores.to(self.dtype)
            if scores.numel() != len(rows) * self.n_members * self.n_outputs:
                raise ValueError(
                    f"module must return scores of shape ({len(rows)}, {self.n_outputs}) in "
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
        for chunk, scores in self.score_members(rows):
            if self.member is not None:
                scores = scores[:, self.member]
            yield chunk, self.answer.in_order(scores) if in_order else self.answer(scores)

    def score_members(self, rows):
        """Yield ``(slice, scores)`` as `score_rows`, with what the module returns."""
        note_threads()
        self.module_.eval()
        for chunk in rows.chunks(self.n_members * self.n_outputs):
            with torch.inference_mode(), self.autocast():
                scores = self.module_(rows[chunk])
            yield chunk, scores.to(self.dtype)

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

    @contextmanager
    def only(self, m):
        """Score rows with member m alone."""
        self.member = m
        try:
            yield
        finally:
            self.member = None

    def show_rows(self, X):
        """Let the networks that ask for it, by a method `from_data`, see rows of the training.

        Of more than `MOST_SHOWN` they see so many, spaced evenly.
        """
        network = self.network
        each = network if isinstance(network, Members) else [network]
        each = [
            getattr(one, "module", one) if isinstance(one, ScaledScores) else one for one in each
        ]
        asking = [one for one in each if hasattr(one, "from_data")]
        if asking:
            index = np.linspace(0, X.shape[0] - 1, min(X.shape[0], MOST_SHOWN)).round()
            shown = Rows(X, torch.device("cpu"), self.dtype)[torch.from_numpy(index).long()]
            for one in asking:
                one.from_data(shown)
            share_buffers(self.module_)

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
        refused = (~losses.isfinite()).nonzero()
        if len(refused):
            what = f"the loss became {losses[refused[0]].item():g} in batch {int(refused[0]) + 1}"
        elif not all(bool(p.isfinite().all()) for p in self.module_.parameters()):
            what = "weights stopped being finite at the end"
        else:
            return
        ways = [f"lower learning_rate (now {self.lr:g})", "scale the features (StandardScaler)"]
        ways.extend(self.criterion_.remedies)
        raise DivergedError(
            f"Training diverged: {what} of epoch {len(self.history)}. Try to {' or '.join(ways)}"
        )


def _plain_row(row):
    steps = {k: np.array(v) for k, v in row["batches"][0].items() if isinstance(v, list)}
    return steps | {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in row.items()
        if name != "batches"
    }


def _build_module(task):
    n_members = task.n_members
    if n_members == 1:
        return _build_member(task, {})
    if packs_members(task.module):
        return _build_member(task, {"n_members": n_members})
    return Members(_build_member(task, {}) for _ in range(n_members))


def _build_member(task, more):
    module = task.module(task.n_features, task.n_outputs, **task.module_params, **more)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must build an nn.Module; got {type(module).__name__}")
    if any(torch.nn.parameter.is_lazy(p) for p in module.parameters()):
        raise ValueError("module must not have lazy layers: give each layer its input size")
    if task.score_scale == 1:
        return module
    return ScaledScores(module, task.n_outputs, task.score_scale)

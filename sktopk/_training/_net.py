"""Training loop: skorch's net with custom minibatches, losses and learning-rate cycle."""

import math
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, LRScheduler, PrintLog
from skorch.dataset import Dataset

from sktopk._common._process import (
    in_parallel,
    is_parallel,
    isolated_rng,
    joined_samples,
    note_threads,
    rng_state,
    share_buffers,
    total,
)
from sktopk.modules import TabularMLP
from sktopk.modules._mlp import takes_sparse
from sktopk.modules._tabular_mlp import has_hooks

from ._batches import Rows
from ._callbacks import check_what_is_read, copied_weights, has_monitored, without_old_best
from ._recorder import Recorder, can_record
from ._scores import scores_of

# Training has diverged if the loss grows by the factor MOST_GROWTH or a weight exceeds MOST_WEIGHT.
MOST_GROWTH, MOST_WEIGHT = 1e10, 1e15
# Share of the training steps in which the learning rate increases. Afterwards, the rate decreases.
RATE_INCREASE = 0.1
# Up to this number of values, the encoded training samples and their scores are kept in memory.
MOST_ENCODED = 1 << 25
# Up to this number of values, copy the samples of each network. Else, score the whole minibatch.
MOST_SELECTED = 1 << 24


class DivergedError(ValueError):
    """Training diverged: the loss or a weight is infinite, NaN or too large."""


def one_cycle(u):
    """Return the learning-rate factor at progress u in [0, 1]: linear warm-up and cosine decay."""
    if u < RATE_INCREASE:
        return max(u / RATE_INCREASE, 1e-3)
    return max(0.5 * (1 + math.cos(math.pi * (u - RATE_INCREASE) / (1 - RATE_INCREASE))), 1e-3)


@dataclass(frozen=True)
class Settings:
    """Settings that do not change after a net is built."""

    task: object  # converts scores to predictions, see :mod:`sktopk._estimators._task`
    n_members: int  # number of networks
    dtype: torch.dtype  # dtype of the network's weights
    row_dtype: torch.dtype  # dtype of the samples
    precision: str | None  # name of the dtype for automatic mixed precision
    plain: bool  # whether the net runs without compilation and mixed precision


class WeightAverage:
    """Exponential moving average of the weights, over about `n_steps` steps.

    After t steps, step i has a share proportional to ``(1 - 1 / n_steps) ** (t - i)``.
    `applied` is True while the module contains the average instead of the trained weights.
    """

    def __init__(self, module, n_steps):
        self._tensors = [p.detach() for p in module.parameters() if p.is_floating_point()]
        self._others = [each.clone() for each in self._tensors]
        self._decay, self._n_updates, self.applied = 1 - 1 / n_steps, 0, False

    def update(self):
        self._n_updates += 1
        share = (1 - self._decay) / (1 - self._decay**self._n_updates)
        torch._foreach_lerp_(self._others, self._tensors, share)

    def apply(self, applied=True):
        """Put the average into the module, or the trained weights if `applied` is False."""
        if applied == self.applied:
            return
        for one, other in zip(self._tensors, self._others, strict=True):
            copy = one.clone()
            one.copy_(other)
            other.copy_(copy)
        self.applied = applied

    def state_dict(self):
        # The checkpoint stores the weights of the module elsewhere.
        return {"others": self._others, "n_updates": self._n_updates, "applied": self.applied}

    def load_state_dict(self, state):
        for one, saved in zip(self._others, state["others"], strict=True):
            one.copy_(saved)
        self._n_updates, self.applied = state["n_updates"], state["applied"]


@dataclass
class Run:
    """State of one call of :meth:`Net.train`."""

    batches: object
    weight: torch.Tensor
    average: WeightAverage
    forward: object = None  # the module, with gradients averaged over processes
    rates: list | None = None  # the largest learning rates of a cycle
    first_loss: float | None = None  # loss of the first minibatch
    recorder: Recorder | None = None  # records and replays steps on a GPU


class Net(NeuralNetClassifier):
    """skorch's net with custom minibatches and losses, trained on labels 0, 1, 2, ...

    `train` replaces skorch's `fit`, because `fit` treats Ctrl-C as a normal end of training, and
    copies the loss from the GPU in each step. `train` copies losses once per epoch, which saves a
    tenth of the time. `train_step` trains all networks at once, each with its own samples.
    """

    def __init__(self, module, *, settings, generator, own_generator, **kwargs):
        super().__init__(module, **kwargs)
        self.settings, self.generator, self.own_generator = settings, generator, own_generator
        # Training stores torch's global random state in `shared_state`, if `own_generator` is None.
        self.shared_state, self.run = None, None

    @property
    def rng_state(self):
        """Return the state of the random generators that the network uses."""
        own = self.own_generator
        return self.shared_state if own is None else [own.get_state()]

    def keep_rng_state(self):
        """Store the state of torch's global generators, if the network uses them."""
        if self.own_generator is None:
            self.shared_state = rng_state(torch.device(self.device))

    def isolated(self):
        """Return a context that restores torch's generators at its end if the network uses them."""
        if self.own_generator is not None:
            return nullcontext()
        return isolated_rng(torch.device(self.device), state=self.rng_state)

    def rows(self, X, resident=False):
        """Return X as `Rows`. A sparse X stays sparse if this makes the first layer faster."""
        if isinstance(X, Rows):
            return X
        device, dtype = torch.device(self.device), self.settings.row_dtype
        sparse = hasattr(X, "nnz") and device.type == "cpu" and self.settings.plain
        sparse = sparse and takes_sparse(self.module_)
        if sparse and resident:  # training samples
            # Hard examples, several processes and callbacks that get minibatches need dense data.
            sparse = not self.criterion_.n_hard and not is_parallel()
            sparse = sparse and not self.callbacks_read_batches()
        loading = self.get_params_for("iterator_train" if resident else "iterator_valid")
        if loading:
            # The generator makes the seeds of the worker processes reproducible.
            seed = self.generator.initial_seed() + len(self.history_)  # another one per chunk
            loading["generator"] = torch.Generator().manual_seed(seed)
        return Rows(X, device, dtype, resident=resident, sparse=sparse, loading=loading)

    def encoded_rows(self, X):
        """Return the training samples as `Rows`. For a TabularMLP, encode them if memory allows.

        This saves time, because the encoder has no weights: its result is the same in each epoch.
        """
        rows, module = self.rows(X, resident=True), self.module_
        if type(module) is not TabularMLP or has_hooks(module.encoder) or not rows.resident:
            return rows
        n_outputs = max(module.encoder.n_outputs, self.settings.task.n_outputs)
        if rows.shape[0] * n_outputs > MOST_ENCODED or self.callbacks_read_batches():
            return rows
        with torch.no_grad():
            parts = [module.encoder(rows[part]) for part in rows.chunks(n_outputs)]
        encoded = torch.cat(parts).numpy(force=True)
        return Rows(encoded, rows.device, self.settings.dtype, resident=True, encoded=True)

    def get_default_callbacks(self):
        return [("epoch_timer", EpochTimer())]

    def fit(self, *args, **kwargs):
        raise TypeError("net_ cannot be trained directly: call fit or partial_fit of the estimator")

    partial_fit = fit

    def train(self, batches, n_epochs, callbacks, data, unseen, checkpoint, *, is_fit):
        """Train for up to `n_epochs` epochs. Return the KeyboardInterrupt of Ctrl-C, or None.

        `callbacks` is a dict of callbacks that run before the user's callbacks. Callbacks get the
        training samples `data` and the held-out samples `unseen` (or None). If `is_fit` is True,
        the weights are averaged over the steps of about one epoch. The learning rate then also
        follows one cycle, unless a user's callback sets the rate.
        """
        own, has_val = self.callbacks_, unseen is not None
        check_what_is_read(own, has_val, is_fit)
        # The user's callbacks run later, so that they can use the validation score.
        later = without_old_best(own) if not is_fit and len(self.history_) else own
        log = [("log", PrintLog().initialize())] if self.verbose > 1 else []
        self.callbacks_ = [*callbacks.items(), *later, *log]
        note_threads()
        self.stop_training = False
        X, y = data.X, data.target
        sets = {"dataset_train": Dataset(X, y)}
        sets["dataset_valid"] = Dataset(unseen.X, unseen.target) if has_val else None
        average = WeightAverage(self.module_, len(batches) if is_fit else 1)
        self.run = run = Run(batches, torch.from_numpy(data.weight), average)
        if is_fit and not any(isinstance(each, LRScheduler) for _, each in own):
            run.rates = [group["lr"] for group in self.optimizer_.param_groups]
        last_good = copied_weights(self.module_) if self.history_ else None
        with self.isolated():
            self.notify("on_train_begin", X=X, y=y)
            try:
                run.forward = in_parallel(self.module_)
                done = 0 if checkpoint is None else checkpoint.begin(self)
                last_good = copied_weights(self.module_) if done else last_good
                for epoch in range(done, 0 if self.stop_training else n_epochs):
                    average.apply(False)
                    self.notify("on_epoch_begin", **sets)
                    self._train_epoch(batches, epoch, n_epochs)
                    share_buffers(self.module_)
                    # Callbacks and predictions use the averaged weights, in eval mode as in skorch.
                    average.apply()
                    self.module_.eval()
                    last_good = copied_weights(self.module_)
                    self._end_epoch(own, sets, is_fit)
                    self.stop_training = total(bool(self.stop_training)) > 0
                    if checkpoint is not None:
                        checkpoint.end_epoch(self, epoch + 1)
                    if self.stop_training:
                        break
            except KeyboardInterrupt as interrupted:
                if last_good is None:
                    raise
                if "train_loss" not in self.history_[-1]:
                    self.history_.pop()
                self.module_.load_state_dict(last_good)
                return interrupted
            finally:
                self.module_.eval()
                history = self.history_  # skorch's Checkpoint would load the history of a file
                # An error of the training must not be hidden by an error of a callback.
                with suppress(Exception) if sys.exc_info()[0] else nullcontext():
                    self.notify("on_train_end", X=X, y=y)
                if run.recorder is not None:
                    run.recorder.release()
                self.callbacks_, self.run, self.history_ = own, None, history
                for _, callback in own:
                    if isinstance(callback, LRScheduler):
                        # The scheduler refers to the optimizer, which cannot be saved in a file.
                        vars(callback).pop("lr_scheduler_", None)
                for group, rate in zip(self.optimizer_.param_groups, run.rates or (), strict=False):
                    group["lr"] = rate
                self.keep_rng_state()
        return None

    def _end_epoch(self, own, sets, is_fit):
        for name, callback in self.callbacks_:
            if not has_monitored(callback, self, sets["dataset_valid"] is not None, is_fit):
                continue
            try:
                callback.on_epoch_end(self, **sets)
            except KeyboardInterrupt:
                # Callbacks such as skorch's EarlyStopping raise KeyboardInterrupt to end training.
                if (name, callback) not in own:
                    raise
                self.stop_training = True

    def _train_epoch(self, batches, epoch, n_epochs):
        self.module_.train()
        begin, end = map(self.listeners, ("on_batch_begin", "on_batch_end"))
        losses, sizes, thresholds = [], [], []
        start, share = epoch / n_epochs, 1 / n_epochs
        # Create the batch record now, because schedulers may write the learning rate into it.
        self.history.new_batch()
        iterator, step = batches, self.train_step
        if torch.device(self.device).type == "cuda" and can_record(self, batches):
            # A user's callbacks may change the network. Each epoch then needs new CUDA graphs.
            if self.callbacks or self.run.recorder is None:
                self.run.recorder = Recorder(self, batches)
            iterator, step = batches.fetched(), self.run.recorder.step
        for i, batch in enumerate(iterator):
            if self.run.rates:
                factor = one_cycle(start + share * (i + 1) / len(batches))
                for group, rate in zip(self.optimizer_.param_groups, self.run.rates, strict=True):
                    group["lr"] = factor * rate
            shown = {"batch": tuple(batch), "training": True} if begin or end else {}
            for callback in begin:
                callback.on_batch_begin(self, **shown)
            loss, scores, threshold = step(batch)
            self.run.average.update()
            losses.append(loss)
            thresholds += [] if threshold is None else [threshold]
            sizes.append(scores.shape[1])
            for callback in end:
                callback.on_batch_end(self, **shown, loss=loss, y_pred=scores.transpose(0, 1))
        n_samples = total(np.array(sizes))
        losses = total(torch.stack(losses).double().cpu().numpy() * sizes) / n_samples
        self._check_finite(torch.from_numpy(losses))
        # With groups, the factors `Lists.share` are for the plain mean over minibatches.
        mean = losses @ n_samples / n_samples.sum() if batches.groups is None else losses.mean()
        earlier = [row["train_loss"] for row in self.history[:-1]]
        self.history.record_batch("train_loss", mean.item())
        self.history.record("train_loss", mean.item())
        self.history.record("train_loss_best", mean.item() < min(earlier, default=math.inf))
        self.history.record_batch("train_batch_size", sum(sizes))
        self.history.record("train_batch_count", len(sizes))
        if thresholds:
            self.history.record_batch("threshold", torch.stack(thresholds).double().tolist())

    def train_step(self, batch, **fit_params):
        """Make one optimizer step. Return a list: loss, scores, and the threshold or None."""
        listeners, result = self.listeners("on_grad_computed"), []

        def closure():
            self.optimizer_.zero_grad()
            scores = self._scores_of_members(batch)
            # Minimize the sum of the losses: each network then trains independently of the others.
            loss, threshold = self._loss_of_batch(scores, batch)
            loss.backward()
            for callback in listeners:
                named = list(self.module_.named_parameters())
                shown = {"named_parameters": named, "batch": tuple(batch), "training": True}
                callback.on_grad_computed(self, **shown)
            # Some optimizers call `closure` several times per step. Keep the first result.
            if not result:
                result.extend((loss.detach() / self.settings.n_members, scores.detach(), threshold))
            return loss

        self.optimizer_.step(closure)
        return result

    def _scores_of_members(self, batch):
        """Return scores (n_members, n, n_outputs) of the n samples that each network has drawn."""
        x, own, n_members = batch.x, batch.own, self.settings.n_members
        ours = type(self.module_) is TabularMLP
        selects = ours and own is not None and own.numel() * x.shape[1] <= MOST_SELECTED
        encoded = self.run.batches.rows.encoded
        more = {"own": own if selects else None, "encoded": encoded} if ours else {}
        with self.autocast():
            scores = self.run.forward(x, **more)
        if self.settings.precision is not None:
            scores = scores.to(self.settings.dtype)
        n_samples = own.shape[1] if selects else len(x)
        n_scores = n_members * self.settings.task.n_outputs
        if scores.numel() != n_samples * n_scores:
            raise ValueError(
                f"module must return {n_scores} scores per sample also in train mode; got shape "
                f"{tuple(scores.shape)} for {n_samples} samples"
            )
        scores = scores.view(n_samples, n_members, -1).transpose(0, 1)
        if own is None or selects:
            return scores
        return scores.gather(1, own.unsqueeze(2).expand(-1, -1, scores.shape[2]))

    def _loss_of_batch(self, scores, batch):
        """Return two values: the sum of all networks' losses, and the mean threshold or None."""
        objective, named, losses, thresholds = self.criterion_, self.criterion_.named, [], []
        for members, columns, drawn in batch.parts:
            values = scores, batch.target, batch.weight, batch.rows
            if members != slice(None):
                values = [None if each is None else each[members][:, columns] for each in values]
            *values, rows = values
            if objective.compares:
                values = joined_samples(*values)
            losses.append(objective(*values, drawn).sum())
            thresholds += [] if named.threshold_now is None else [named.threshold_now]
            if drawn.n_hard:  # keep hard examples for the next step
                self.run.batches.keep(rows, members, named.hardest)
        threshold = sum(thresholds[1:], thresholds[0]) / len(thresholds) if thresholds else None
        return sum(losses[1:], losses[0]), threshold

    def autocast(self):
        """Return the context for a forward pass with automatic mixed precision."""
        if self.settings.precision is None:
            return nullcontext()
        device = torch.device(self.device).type
        return torch.autocast(device, dtype=getattr(torch, self.settings.precision))

    # skorch's scoring callbacks call the methods below, with labels 0, 1, 2, ...

    def decision_function(self, X):
        return self.settings.task.decide(scores_of(self, X))

    def predict_proba(self, X):
        return self.settings.task.proba(scores_of(self, X))

    def listeners(self, method):
        """Return the callbacks that override the method `method` of skorch's `Callback`."""
        silent = getattr(Callback, method)
        return [cb for _, cb in self.callbacks_ if getattr(type(cb), method, silent) is not silent]

    def callbacks_read_batches(self):
        """Return whether a user's callback overrides a method that receives minibatches."""
        methods = ("on_batch_begin", "on_batch_end", "on_grad_computed")
        heard = [getattr(type(cb), name) for name in methods for cb in self.listeners(name)]
        places = [getattr(each, "__module__", "") for each in heard]
        return not all(place.startswith(("skorch.", "sktopk.")) for place in places)

    def _check_finite(self, losses):
        if self.run.first_loss is None:
            self.run.first_loss = losses[0].abs().clamp(min=1).item()
        refused = (~(losses.abs() < MOST_GROWTH * self.run.first_loss)).nonzero()
        if len(refused):
            what = f"the loss is {losses[refused[0]].item():g} in minibatch {int(refused[0]) + 1}"
        elif not all(map(_is_bounded, self.module_.parameters())):
            what = f"a weight is not finite or larger than {MOST_WEIGHT:g} at the end"
        else:
            return
        remedies = [f"lower learning_rate (now {self.lr:g})", "scale the features (StandardScaler)"]
        decay = max(group.get("weight_decay", 0.0) for group in self.optimizer_.param_groups)
        if decay * self.lr > 1:
            remedies.append(f"lower weight_decay (now {decay:g})")
        advice, epoch = " or ".join([*remedies, *self.criterion_.remedies]), len(self.history)
        raise DivergedError(f"Training diverged: {what} of epoch {epoch}. Try to {advice}")


def _is_bounded(parameter):
    most = MOST_WEIGHT if parameter.requires_grad else torch.inf
    return not parameter.numel() or bool(parameter.detach().abs().amax() < most)

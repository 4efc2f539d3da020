"""The training engine: everything that knows skorch."""

import inspect
import threading
import warnings
from contextlib import contextmanager, nullcontext
from numbers import Real

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, PassthroughScoring, PrintLog
from skorch.dataset import Dataset
from tqdm.auto import tqdm

from ._batches import Rows
from ._distributed import all_objects
from ._net_state import copied_weights, noise_generator

_RNG_LOCK = threading.RLock()


@contextmanager
def isolated_rng(device, seed=None, state=None):
    """Run a block with torch's generators at `seed` or `state`, and leave them as they were.

    The generators belong to the process, so that fits in threads take turns.
    """
    on_gpu = device.type == "cuda"
    with _RNG_LOCK, torch.random.fork_rng(devices=[device] if on_gpu else []):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                torch.cuda.manual_seed(seed)
        if state is not None:
            torch.set_rng_state(state[0])
            if on_gpu and len(state) > 1:
                torch.cuda.set_rng_state(state[1], device)
        yield


def rng_state(device):
    """State of torch's generators that a module on `device` draws from."""
    gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *gpu]


def is_of_the_batch(criterion):
    """Tell a loss of the batch as a whole from a mean of losses of the rows."""
    return hasattr(criterion, "batch_loss")


class DivergedError(ValueError):
    """The loss or the weights stopped being finite."""


class Net(NeuralNetClassifier):
    """skorch's net on encoded labels, without its per-row loading and per-step bookkeeping.

    Callbacks and history live on. The history holds one batch per epoch, which carries the
    epoch's mean loss: callbacks read it where skorch leaves the last batch.
    """

    @classmethod
    def build(
        cls,
        build_module,
        criterion,
        *,
        seed,
        dtype,
        device,
        draws,
        n_classes,
        n_outputs,
        optimizer,
        learning_rate,
        weight_decay,
        callbacks,
        precision,
        compile,
        verbose,
        params,
    ):
        """Return an initialised net around the module that `build_module` returns.

        `draws` says whether the module uses torch's generator after its initialisation:
        then each training runs inside `isolated_rng`, where the last one left off. `params`
        are further arguments of skorch.
        """
        options = {"optimizer__weight_decay": weight_decay, "optimizer__fused": True}
        if "optimizer__foreach" in params:  # the other fast path, which excludes this one
            del options["optimizer__fused"]
        accepted = inspect.signature(optimizer).parameters
        options = {k: v for k, v in options.items() if k.split("__")[1] in accepted}
        with isolated_rng(device, seed=seed):
            net = cls(
                build_module().to(dtype),
                criterion=criterion,
                optimizer=optimizer,
                lr=learning_rate,
                callbacks=callbacks,
                classes=np.arange(n_classes),
                train_split=None,
                verbose=verbose,
                device=str(device),
                use_caching=False,
                **options | params,
            ).initialize()
            net.rng_state = rng_state(device)
        net.dtype, net.draws, net.precision = dtype, draws, precision
        net.n_outputs = n_outputs
        net.generator = torch.Generator().manual_seed(seed)
        # Noise is not the order of the rows: a seed of its own.
        noise = torch.Generator(device).manual_seed(seed + 1)
        for loss in net.criterion_.modules():
            if hasattr(loss, "generator"):
                loss.generator = noise
        if compile:
            net.module_.compile()
            if not is_of_the_batch(net.criterion_):
                net.criterion_.compile()
        return net

    def get_default_callbacks(self):
        loss = PassthroughScoring("train_loss", on_train=True)
        log = [("print_log", PrintLog())] if self.verbose > 1 else []
        return [("epoch_timer", EpochTimer()), ("train_loss", loss), *log]

    def train(self, batches, epochs, callbacks, *, X, y, X_val=None, y_val=None):
        """Train for `epochs` more epochs on `batches`; the data are for the callbacks.

        `callbacks` (a dict by name) join the net's own for this training only. It ends early
        when `stop_training` is set or a user's callback raises KeyboardInterrupt, as skorch's
        early stopping does. If training diverges or Ctrl-C interrupts it, the weights of the
        last epoch in which all was finite are put back before the exception goes on.
        """
        own = self.callbacks_
        # Before the net's own: a user's callback may stop at our validation score.
        self.callbacks_ = [*callbacks.items(), *own]
        self.stop_training = False
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
                for _ in range(epochs):
                    self.notify("on_epoch_begin", **data)
                    self.run_single_epoch(batches, training=True, prefix="train", step_fn=self.step)
                    last_good = copied_weights(self.module_)
                    self._end_epoch(own, data)
                    if self.stop_training:
                        break
            except BaseException as error:
                self._put_back(last_good, error)
                raise
            finally:
                self.notify("on_train_end", X=X, y=y)
                self.callbacks_ = own
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
            warnings.warn(
                f"Training interrupted after epoch {len(self.history_)}: its weights are kept "
                "(the best so far with early_stopping=True)",
                stacklevel=5,
            )

    def mean_loss(self, X, y):
        """Mean loss of rows whose class was seen in training, without drawing from `noise`."""
        noise = noise_generator(self)
        state = None if noise is None else noise.get_state()
        total, known = 0.0, y >= 0
        rows = Rows(X, torch.device(self.device), self.dtype)
        chunks = self.score_rows(rows)
        if is_of_the_batch(self.criterion_):
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
        losses, sizes, trace = [], [], getattr(self.criterion_, "trace", {})
        for values in trace.values():
            values.clear()
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
        self._check_finite(losses := torch.stack(losses).double().cpu())
        mean = losses @ torch.tensor(sizes, dtype=losses.dtype) / sum(sizes)
        self.history.new_batch()
        self.history.record_batch(f"{prefix}_loss", mean.item())
        self.history.record_batch(f"{prefix}_batch_size", sum(sizes))
        self.history.record(f"{prefix}_batch_count", len(sizes))
        for name, values in trace.items():
            if values:
                self.history.record_batch(name, torch.cat(values).double().tolist())

    def step(self, batch):
        """One step of the optimizer; returns the loss, detached, and the scores."""
        rows, (target, weight) = batch
        listeners = self._listeners("on_grad_computed")
        result = []

        def closure():
            self.optimizer_.zero_grad()
            with self.autocast():
                scores = self.module_(rows)
            if is_of_the_batch(self.criterion_):
                loss = self.criterion_.batch_loss(scores, target, weight)
            else:
                loss = self.criterion_(scores, target, weight)
                if weight is not None:
                    # Weights have mean 1 over all batches: a batch of light rows weighs little.
                    loss = loss * weight.mean()
            loss.backward()
            for callback in listeners:
                callback.on_grad_computed(
                    self,
                    named_parameters=list(self.module_.named_parameters()),
                    batch=batch,
                    training=True,
                )
            # An optimizer that evaluates several times reports its first value.
            if not result:
                result.extend((loss.detach(), scores))
            return loss

        self.optimizer_.step(closure)
        return result

    def autocast(self):
        """Context of the forward pass: automatic mixed precision, or nothing."""
        if self.precision is None:
            return nullcontext()
        device = torch.device(self.device).type
        return torch.autocast(device, dtype=getattr(torch, self.precision))

    def score_rows(self, rows):
        """Yield ``(slice, scores)`` over chunks of `rows`, scores in the network's float type."""
        self.module_.eval()
        for chunk in rows.chunks(self.n_outputs):
            with torch.inference_mode(), self.autocast():
                scores = self.module_(rows[chunk])
            yield chunk, scores.to(self.dtype)

    def _listeners(self, method):
        """Callbacks that do something at `method`."""
        silent = getattr(Callback, method)
        return [cb for _, cb in self.callbacks_ if getattr(type(cb), method) is not silent]

    def _check_finite(self, losses):
        refused = (~losses.isfinite()).nonzero()
        if len(refused):
            what = f"the loss became {losses[refused[0]].item():g} in batch {int(refused[0]) + 1}"
        elif not all(bool(p.isfinite().all()) for p in self.module_.parameters()):
            what = "weights stopped being finite at the end"
        else:
            return
        ways = [f"lower learning_rate (now {self.lr:g})", "scale the features (StandardScaler)"]
        if hasattr(self.criterion_, "tau"):
            ways.append("raise tau")
        raise DivergedError(
            f"Training diverged: {what} of epoch {len(self.history)}. Try to {' or '.join(ways)}"
        )


class ProgressBar(Callback):
    """One bar over the epochs of a fit, with the last loss and validation score."""

    def __init__(self, epochs, what):
        self.epochs, self.what = epochs, what

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.bar_ = tqdm(total=self.epochs, desc=self.what, unit="epoch")

    def on_epoch_end(self, net, **kwargs):
        shown = {
            "train_loss": net.history[-1, "batches", -1, "train_loss"],
            "valid_score": net.history[-1].get("valid_score"),
        }
        self.bar_.set_postfix({k: f"{v:.4g}" for k, v in shown.items() if v is not None})
        self.bar_.update()

    def on_train_end(self, net, X=None, y=None, **kwargs):
        self.bar_.close()
        del self.bar_


class TrueThreshold(Callback):
    """Record the threshold over all training rows before each step, beside its estimate.

    Parameters
    ----------
    threshold : callable
        Returns it, a float.
    """

    def __init__(self, threshold):
        self.threshold = threshold

    def on_batch_begin(self, net, batch=None, training=False, **kwargs):
        trace = net.criterion_.trace.setdefault("true_threshold", [])
        trace.append(torch.tensor([self.threshold()]))
        net.module_.train()


class Validation(Callback):
    """Score held-out rows after each epoch; keep the best weights, stop when they get old.

    Parameters
    ----------
    score : callable
        Returns a float, the larger the better.
    patience : int or None
        Epochs without an improvement of more than `tol` after which to stop and put the best
        weights back; None only records.
    tol : float
    """

    def __init__(self, score, patience, tol):
        self.score, self.patience, self.tol = score, patience, tol

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.best_, self.age_, self.weights_ = -np.inf, 0, None
        self.best_loss_ = np.inf

    def on_epoch_end(self, net, dataset_train=None, dataset_valid=None, **kwargs):
        scores = all_objects(self.score())
        # Processes that train together decide together.
        score = scores[0] if len(scores) == 1 else float(np.mean(scores))
        if not isinstance(score, Real) or not np.isfinite(score):
            raise ValueError(f"scoring must return a finite number; got {score!r}")
        net.history.record("valid_score", float(score))
        # What skorch's callbacks look for.
        loss = net.mean_loss(dataset_valid.X, dataset_valid.y)
        net.history.record("valid_loss", loss)
        net.history.record("valid_loss_best", loss < self.best_loss_)
        self.best_loss_ = min(loss, self.best_loss_)
        if self.patience is None:
            return
        if score > self.best_:
            # Any gain is kept, but only one above tol buys more time.
            if score > self.best_ + self.tol:
                self.age_ = -1
            self.best_ = score
            self.weights_ = copied_weights(net.module_)
        self.age_ += 1
        net.stop_training = self.age_ >= self.patience

    def on_train_end(self, net, X=None, y=None, **kwargs):
        if self.weights_ is not None:
            net.module_.load_state_dict(self.weights_)

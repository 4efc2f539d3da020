"""The training engine: everything that knows skorch."""

import threading
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, PassthroughScoring, PrintLog
from skorch.dataset import Dataset
from tqdm.auto import tqdm

_RNG_LOCK = threading.RLock()


@contextmanager
def isolated_rng(device, seed=None, state=None):
    """Run a block with torch's generators at `seed` or `state`, and leave them as they were.

    The generators belong to the process, so that fits in threads take turns.
    """
    devices = [device] if device.type == "cuda" else []
    with _RNG_LOCK, torch.random.fork_rng(devices=devices):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if devices:
                torch.cuda.manual_seed(seed)
        if state is not None:
            torch.set_rng_state(state)
        yield


class DivergedError(ValueError):
    """The loss or the weights stopped being finite."""


class Net(NeuralNetClassifier):
    """skorch's net on encoded labels, without its per-row loading and per-step bookkeeping.

    Callbacks and history live on. The history holds one batch per epoch, which carries the
    epoch's mean loss: callbacks read it where skorch leaves the last batch.
    """

    @classmethod
    def build(cls, build_module, *, seed, dtype, draws, precision, compile, device, **params):
        """Return an initialised net around the module that `build_module` returns.

        `draws` says whether the module uses torch's generator after its initialisation:
        then each training runs inside `isolated_rng`, where the last one left off.
        """
        with isolated_rng(device, seed=seed):
            net = cls(build_module(), device=str(device), **params).initialize()
            net.rng_state = torch.get_rng_state()
        net.dtype, net.draws, net.precision = dtype, draws, precision
        net.generator = torch.Generator().manual_seed(seed)
        # Noise is not the order of the rows: a seed of its own.
        noise = torch.Generator(device).manual_seed(seed + 1)
        for loss in net.criterion_.modules():
            if hasattr(loss, "generator"):
                loss.generator = noise
        if compile:
            net.module_.compile()
            net.criterion_.compile()
        return net

    def get_default_callbacks(self):
        loss = PassthroughScoring("train_loss", on_train=True)
        log = [("print_log", PrintLog())] if self.verbose > 1 else []
        return [("epoch_timer", EpochTimer()), ("train_loss", loss), *log]

    def train(self, batches, epochs, callbacks, *, X, y, X_val=None, y_val=None):
        """Train for `epochs` more epochs on `batches`; the data are for the callbacks.

        `callbacks` (a dict by name) join the net's own for this training only. It ends early
        when `stop_training` is set, when a callback raises KeyboardInterrupt (skorch's early
        stopping does) or at Ctrl-C. If training diverges or is interrupted, the weights of the
        last epoch in which all was finite are put back.
        """
        own = self.callbacks_
        # Before the net's own: a user's callback may stop at our validation score.
        self.callbacks_ = [*callbacks.items(), *own]
        self.stop_training = self.interrupted = False
        last_good = copied_weights(self.module_) if self.history_ else None
        data = {
            "dataset_train": Dataset(X, y),
            "dataset_valid": None if X_val is None else Dataset(X_val, y_val),
        }
        randomness = isolated_rng(torch.device(self.device), state=self.rng_state)
        with randomness if self.draws else nullcontext():
            self.notify("on_train_begin", X=X, y=y)
            try:
                for _ in range(epochs):
                    self.notify("on_epoch_begin", **data)
                    self.run_single_epoch(batches, training=True, prefix="train", step_fn=self.step)
                    last_good = copied_weights(self.module_)
                    try:
                        self.notify("on_epoch_end", **data)
                    except KeyboardInterrupt:
                        break
                    if self.stop_training:
                        break
            except (DivergedError, KeyboardInterrupt) as error:
                self.history_.pop()  # the epoch that broke off
                if last_good is None:
                    raise
                self.module_.load_state_dict(last_good)
                if isinstance(error, DivergedError):
                    raise
                self.interrupted = True
            finally:
                self.notify("on_train_end", X=X, y=y)
                self.callbacks_ = own
                if self.draws:
                    self.rng_state = torch.get_rng_state()
        if self.interrupted:
            warnings.warn(
                f"Training interrupted after epoch {len(self.history_)}: its weights are kept "
                "(the best so far with early_stopping=True)",
                stacklevel=4,
            )

    def run_single_epoch(self, iterator, training, prefix, step_fn, **fit_params):
        """Run `step_fn` over the batches and record their mean loss, once."""
        self.module_.train()
        begin = self._listeners("on_batch_begin")
        end = self._listeners("on_batch_end")
        losses, sizes = [], []
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

    def step(self, batch):
        """One step of the optimizer; returns the loss, detached, and the scores."""
        rows, (target, weight) = batch
        listeners = self._listeners("on_grad_computed")
        result = []

        def closure():
            self.optimizer_.zero_grad()
            with self.autocast():
                scores = self.module_(rows)
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
        n_outputs = len(self.classes)
        self.module_.eval()
        for chunk in rows.chunks(n_outputs):
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
            what = "weights stopped being finite"
        else:
            return
        raise DivergedError(
            f"Training diverged: {what} of epoch {len(self.history)}. Lower learning_rate "
            f"(now {self.lr:g}), scale the features (StandardScaler) or raise tau"
        )


class ProgressBar(Callback):
    """One bar over the epochs of a fit, with the last loss and validation score."""

    def __init__(self, epochs):
        self.epochs = epochs

    def on_train_begin(self, net, X=None, y=None, **kwargs):
        self.bar_ = tqdm(total=self.epochs, desc="Training", unit="epoch")

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
        self.epoch_ = len(net.history)

    def on_epoch_end(self, net, **kwargs):
        score = self.score()
        if not np.isfinite(score):
            raise ValueError(f"scoring must return a finite number; got {score}")
        net.history.record("valid_score", float(score))
        if self.patience is None:
            return
        if score > self.best_:
            # Any gain is kept, but only one above tol buys more time.
            if score > self.best_ + self.tol:
                self.age_ = -1
            self.best_, self.epoch_ = score, len(net.history)
            self.weights_ = copied_weights(net.module_)
        self.age_ += 1
        net.stop_training = self.age_ >= self.patience

    def on_train_end(self, net, X=None, y=None, **kwargs):
        if self.weights_ is not None:
            net.module_.load_state_dict(self.weights_)


def copied_weights(module):
    """A snapshot that `load_state_dict` takes."""
    return {name: value.clone() for name, value in module.state_dict().items()}


def net_state(net):
    """Weights, optimizer state and random states of a net: arrays and plain values only."""
    return {
        "dtype": str(net.dtype).removeprefix("torch."),
        "weights": to_arrays(net.module_.state_dict()),
        "optimizer": to_arrays(net.optimizer_.state_dict()),
        "generator": to_arrays(net.generator.get_state()),
        "rng_state": to_arrays(net.rng_state),
        "noise": to_arrays(noise.get_state()) if (noise := _noise_generator(net)) else None,
        "history": net.history_.to_list(),
    }


def load_net_state(net, state):
    """Put what `net_state` returned into an initialised net of the same shape."""
    device = torch.device(net.device)
    net.module_.load_state_dict(to_tensors(state["weights"], device))
    net.optimizer_.load_state_dict(to_tensors(state["optimizer"], device))
    net.generator.set_state(to_tensors(state["generator"], torch.device("cpu")))
    net.rng_state = to_tensors(state["rng_state"], torch.device("cpu"))
    if noise := _noise_generator(net):
        noise.set_state(to_tensors(state["noise"], torch.device("cpu")))
    net.history_.extend(state["history"])


def _noise_generator(net):
    """The generator that the losses of `net` draw noise from, or None."""
    modules = net.criterion_.modules()
    return next((m.generator for m in modules if getattr(m, "generator", None)), None)


def to_arrays(value):
    """Copy nested dicts and lists with tensors replaced by arrays."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        return {key: to_arrays(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_arrays(item) for item in value]
    return value


def to_tensors(value, device):
    """The reverse of `to_arrays`."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()).to(device)
    if isinstance(value, dict):
        return {key: to_tensors(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [to_tensors(item, device) for item in value]
    return value

"""Training engine: skorch's net with custom minibatches, losses and learning-rate cycle."""

import copy
import inspect
import math
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback, EpochTimer, LRScheduler, PassthroughScoring, PrintLog
from skorch.dataset import Dataset

from sktopk._common._available import available_if
from sktopk._common._scalars import check_call
from sktopk._common._warnings import warn
from sktopk.modules import MLP, TabularMLP
from sktopk.modules._members import Members, mean_of_members, packs_members, score_of_member
from sktopk.modules._mlp import takes_sparse

from ._average import WeightAverage
from ._batches import Rows
from ._folds import FoldRows, HeldOutRows
from ._held_out_entries import check_what_is_read, has_monitored
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
from .criteria._custom import CustomLoss

# Networks that take a random generator instead of using torch's global one.
OURS = (MLP, TabularMLP)
# Maximum number of samples for the network's method `from_data`, which computes column scales.
MOST_SHOWN = 1 << 15
# Training has diverged if the loss grows by the factor MOST_GROWTH or a weight exceeds MOST_WEIGHT.
MOST_GROWTH, MOST_WEIGHT = 1e10, 1e15
# Share of the training steps in which the learning rate increases. Afterwards, the rate decreases.
RATE_INCREASE = 0.1
# Number of scores per chunk when the loss of held-out samples is computed.
LOSS_NUMBERS = 1 << 23
PRECISIONS = {None: None, "bf16": "bfloat16", "bfloat16": "bfloat16"}


class DivergedError(ValueError):
    """Training diverged: the loss or a weight is infinite, NaN or too large."""


def one_cycle(u):
    """Return the learning-rate factor at progress u in [0, 1]: linear warm-up and cosine decay."""
    if u < RATE_INCREASE:
        return max(u / RATE_INCREASE, 1e-3)
    return max(0.5 * (1 + math.cos(math.pi * (u - RATE_INCREASE) / (1 - RATE_INCREASE))), 1e-3)


def build_net(
    module, criterion, head, *,
    n_features, n_outputs, n_classes, n_members, module_params, learning_rate, weight_decay,
    callbacks, net_params, device, dtypes, verbose, seed,
):  # fmt: skip
    """Return an initialized, untrained `Net`.

    Parameters
    ----------
    module : callable
        Called as ``module(n_features, n_outputs, **module_params)``; returns an nn.Module.
    head : object
        Functions that convert scores to predictions, and `beta2` of AdamW.
    net_params : dict
        Additional arguments of skorch's net, and the keys "precision" and "compile".
    dtypes : pair of str
        Data types of the weights and of X. TabularMLP scales samples in the dtype of X. Other
        networks get samples in the dtype of the weights.
    seed : int
        Seed of initial weights, dropout, minibatches and random numbers in the loss.
    """
    params = dict(net_params)
    dtype, row_dtype = (getattr(torch, name) for name in dtypes)
    precision, compiled = params.pop("precision", None), params.pop("compile", False)
    if precision not in PRECISIONS:
        allowed = ", ".join(map(repr, PRECISIONS))
        raise ValueError(f"net_params: precision must be one of {allowed}; got {precision!r}")
    optimizer = params.pop("optimizer", None)
    if optimizer is None:
        optimizer = torch.optim.AdamW
        params.setdefault("optimizer__betas", (0.9, head.beta2))
        if module is TabularMLP:
            # A decay of the output layer would shrink the scores, and a linear model altogether.
            last = f"layers.{len(module_params['hidden_layer_sizes'])}.*"
            params.setdefault("optimizer__param_groups", [(last, {"weight_decay": 0.0})])
    if optimizer is torch.optim.AdamW:
        # In other optimizers, weight decay is an L2 penalty with values of another size.
        params.setdefault("optimizer__weight_decay", weight_decay)
    accepted = inspect.signature(optimizer).parameters
    if "fused" in accepted and "optimizer__foreach" not in params:
        params.setdefault("optimizer__fused", True)
    # Networks in OURS take a generator. Other networks use torch's global random generator.
    draws = module not in OURS
    own = None if draws else torch.Generator().manual_seed(seed)
    with isolated_rng(device, seed=seed) if draws else nullcontext():
        built = _build_module(module, n_features, n_outputs, n_members, module_params, own)
        built.to(dtype)
        if isinstance(built, TabularMLP):
            built.center, built.scale = built.center.to(row_dtype), built.scale.to(row_dtype)
        else:
            row_dtype = dtype
        try:
            net = Net(
                built,
                criterion=criterion,
                optimizer=optimizer,
                lr=learning_rate,
                callbacks=list(callbacks or []),
                classes=np.arange(n_classes),
                train_split=None,
                verbose=verbose,
                device=str(device),
                # skorch's cache requires minibatches (X, y), but these minibatches have weights.
                **{"use_caching": False} | params,
            ).initialize()
        except (TypeError, ValueError) as error:
            if not net_params:
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"net_params={net_params!r} are not allowed: {error}") from error
        net.own_generator = own
        if draws:
            net.rng_state = rng_state(device)
    for part in net.criterion_.modules():
        if isinstance(part, CustomLoss):
            # Convert tensors of a user's loss, such as class weights, to the dtype of the network.
            part.loss.to(dtype)
    net.head, net.dtype, net.row_dtype, net.draws = head, dtype, row_dtype, draws
    net.precision = PRECISIONS[precision]
    net.n_outputs, net.n_members = n_outputs, n_members
    net.generator = torch.Generator().manual_seed(seed)
    # Use a separate seed, so that noise in the loss does not depend on the order of minibatches.
    if criterion.draws:
        net.criterion_.seed(torch.Generator(device).manual_seed(seed + 1))
    if compiled:
        net.module_.compile()
    net.plain = not compiled and precision is None and device.type == "cpu"
    return net


class Net(NeuralNetClassifier):
    """skorch's net with custom minibatches and losses, trained on labels 0, 1, 2, ...

    Three methods of skorch are replaced. `train` replaces `fit_loop`, because skorch treats Ctrl-C
    as a normal end of training. `run_single_epoch` reads the losses from the device once per epoch,
    because reading the loss in every step takes a tenth of the training time. `train_step` lets the
    criterion run the backward pass. `history` has one batch per epoch, with the mean loss.
    """

    # These are set only during training: module (with gradients averaged over processes), loss of
    # the first minibatch, sample weights for callbacks, learning-rate schedule, averaged weights.
    forward_in_training = first_loss_ = weight_ = _rates = average = None

    @property
    def rng_state(self):
        """Return the state of the random generators that the network uses."""
        own = self.own_generator
        return self.shared_state if own is None else [own.get_state()]

    @rng_state.setter
    def rng_state(self, state):
        if self.own_generator is None:
            self.shared_state = state
        else:
            self.own_generator.set_state(state[0])

    def isolated(self):
        """Return a context manager that restores torch's global random generators at its end."""
        if not self.draws:
            return nullcontext()
        return isolated_rng(torch.device(self.device), state=self.rng_state)

    def check_output(self, X):
        """Check with two samples that the network returns scores of the expected type and shape."""
        rows = self.rows(X[:2])
        self.module_.eval()
        try:
            # Call `forward`, because `self.module_(...)` may compile a graph for only two samples.
            with self.autocast():
                scores = self.module_.forward(rows[:])
        except (RuntimeError, TypeError, ValueError) as error:
            message = f"module fails on samples of shape {rows.shape[1:]}: {error}"
            raise ValueError(message) from error
        is_tensor = isinstance(scores, torch.Tensor)
        if not is_tensor or not scores.is_floating_point():
            came = f"a Tensor of {scores.dtype}" if is_tensor else type(scores).__name__
            raise TypeError(f"module must return a Tensor of floating point scores; got {came}")
        if not scores.requires_grad:
            raise ValueError(
                "module must return scores with a gradient; got scores that are detached from its "
                "parameters or do not depend on them"
            )
        members = (self.n_members,) if self.n_members > 1 else ()
        expected = (len(rows), *members, self.n_outputs)
        allowed = [expected, (len(rows),)] if self.n_outputs == 1 and not members else [expected]
        if tuple(scores.shape) not in allowed:
            shape = ", ".join(map(str, ("n_samples", *expected[1:])))
            raise ValueError(
                f"module must return scores of shape ({shape}); got shape {tuple(scores.shape)} "
                f"for {len(rows)} samples"
            )
        loss = self.head.cosines_for
        if loss and not self._is_bounded_by_its_layers(rows[:]):
            raise ValueError(
                f"module must return cosines for loss={loss!r}: end the network with "
                "sktopk.modules.NormalizedLinear; got scores without a bound"
            )
        if self.criterion_.losses[0].takes_scores and _are_probabilities(mean_of_members(scores)):
            warn(
                "module seems to return probabilities, but the losses take scores: remove the "
                "softmax at its end (torch.nn.Softmax)"
            )

    def _is_bounded_by_its_layers(self, rows):
        """Return whether scores stay in [-1, 1] if all weights are multiplied by a large number."""
        larger = copy.deepcopy(self.module_)
        with torch.no_grad(), self.autocast():
            for parameter in larger.parameters():
                parameter.mul_(1e3)
            return bool(larger.forward(rows).abs().max() <= 1 + 1e-3)

    def show_data(self, X, weight):
        """Pass training samples to the network's method `from_data`, if this method exists."""
        module = self.module_
        each = list(module) if isinstance(module, Members) else [module]
        asking = [one for one in each if hasattr(one, "from_data")]
        if asking:
            index = np.linspace(0, X.shape[0] - 1, min(X.shape[0], MOST_SHOWN)).round()
            index = torch.from_numpy(index).long()
            shown = Rows(X, torch.device("cpu"), self.row_dtype)[index]
            for one in asking:
                ours = isinstance(one, TabularMLP)
                one.from_data(shown, *([torch.from_numpy(weight[index.numpy()])] if ours else []))
            share_buffers(module)

    def rows(self, X, resident=False):
        """Wrap X in `Rows`, which yields tensors, or sparse rows if the first layer is then faster.

        `resident` is True in training. A user's callback that reads minibatches gets dense samples.
        """
        sparse = hasattr(X, "nnz") and self.plain and takes_sparse(self.module_)
        sparse = sparse and world_size() == 1 and not (resident and self._callbacks_read_batches())
        device = torch.device(self.device)
        return Rows(X, device, self.row_dtype, resident=resident, sparse=sparse)

    def get_default_callbacks(self):
        loss = PassthroughScoring("train_loss", on_train=True)
        log = [("print_log", PrintLog())] if self.verbose > 1 else []
        return [("epoch_timer", EpochTimer()), ("train_loss", loss), *log]

    def train(self, batches, n_epochs, callbacks, *, cycle=False, checkpoint=None, data):
        """Train for up to `n_epochs` epochs. Return the KeyboardInterrupt if Ctrl-C ends training.

        `callbacks` is a dict of callbacks that run before the user's callbacks. With `cycle`, the
        learning rate follows one cycle, unless a user's callback sets the rate, and the network
        gets the average of its weights over about one epoch of steps. `data` is a dict with X, y
        and weight. The optional keys X_val and y_val are for callbacks.
        """
        own, is_fit, has_val = self.callbacks_, cycle, data.get("X_val") is not None
        check_what_is_read(own, has_val, is_fit)
        # The user's callbacks run last, so that they can use the validation score.
        self.callbacks_ = [*callbacks.items(), *own]
        note_threads()
        self.stop_training, self.weight_ = False, torch.from_numpy(data["weight"])
        X, y = data["X"], data["y"]
        sets = {"dataset_train": Dataset(X, y)}
        sets["dataset_valid"] = Dataset(data["X_val"], data["y_val"]) if has_val else None
        self.average = WeightAverage(self.module_, len(batches) if cycle else 1)
        cycle = is_fit and not any(isinstance(each, LRScheduler) for _, each in own)
        rates = [group["lr"] for group in self.optimizer_.param_groups]
        last_good = copied_weights(self.module_) if self.history_ else None
        with self.isolated():
            self.notify("on_train_begin", X=X, y=y)
            try:
                # Store a method, because skorch would register an nn.Module as part of the net.
                self.forward_in_training = in_parallel(self.module_).__call__
                done = 0 if checkpoint is None else checkpoint.begin(self)
                last_good = copied_weights(self.module_) if done else last_good
                for epoch in range(done, 0 if self.stop_training else n_epochs):
                    self.average.apply(False)
                    self.notify("on_epoch_begin", **sets)
                    if cycle:
                        self._rates = epoch / n_epochs, 1 / n_epochs, rates
                    self.run_single_epoch(batches, training=True, prefix="train")
                    share_buffers(self.module_)
                    # Callbacks and predictions use the average, in eval mode as in skorch.
                    self.average.apply()
                    share_buffers(self.module_)
                    self.module_.eval()
                    last_good = copied_weights(self.module_)
                    self._end_epoch(own, sets, is_fit)
                    self.stop_training = any(all_objects(self.stop_training))
                    if checkpoint is not None:
                        checkpoint.end_epoch(self, epoch + 1)
                    if self.stop_training:
                        break
                self.module_.eval()
            except KeyboardInterrupt as interrupted:
                if last_good is None:
                    raise
                if "train_loss" not in self.history_[-1]:
                    self.history_.pop()
                self.module_.load_state_dict(last_good)
                self.module_.eval()
                return interrupted
            finally:
                self.notify("on_train_end", X=X, y=y)
                self.callbacks_, self._rates = own, None
                for group, rate in zip(self.optimizer_.param_groups, rates, strict=True):
                    group["lr"] = rate if cycle else group["lr"]
                self.forward_in_training = self.weight_ = self.first_loss_ = self.average = None
                if self.draws:
                    self.rng_state = rng_state(torch.device(self.device))
        return None

    def _end_epoch(self, own, sets, is_fit):
        self.on_epoch_end(self, **sets)
        users = [callback for _, callback in own]
        for _, callback in self.callbacks_:
            if not has_monitored(callback, self, sets["dataset_valid"] is not None, is_fit):
                continue
            try:
                callback.on_epoch_end(self, **sets)
            except KeyboardInterrupt:
                # Callbacks such as skorch's EarlyStopping end training by KeyboardInterrupt.
                if callback not in users:
                    raise
                self.stop_training = True

    def run_single_epoch(self, iterator, training, prefix, step_fn=None, **fit_params):
        """Train on all minibatches of an epoch, and record their mean loss in the history."""
        self.module_.train()
        begin, end = map(self._listeners, ("on_batch_begin", "on_batch_end"))
        losses, sizes, trace = [], [], self.criterion_.trace
        for values in trace.values():
            values.clear()
        # Create the batch record now, because schedulers may write the learning rate into it.
        self.history.new_batch()
        n_batches = len(iterator)
        for i, batch in enumerate(iterator):
            if self._rates is not None:
                start, share, rates = self._rates
                factor = one_cycle(start + share * (i + 1) / n_batches)
                for group, rate in zip(self.optimizer_.param_groups, rates, strict=True):
                    group["lr"] = factor * rate
            for callback in begin:
                callback.on_batch_begin(self, batch=batch, training=training)
            loss, scores = self.train_step(batch)
            self.average.update()
            losses.append(loss)
            sizes.append(len(scores))
            shown = {"batch": batch, "training": training, "loss": loss, "y_pred": scores}
            for callback in end:
                callback.on_batch_end(self, **shown)
        n_samples = total(np.array(sizes))
        losses = total(torch.stack(losses).double().cpu().numpy() * sizes) / n_samples
        self._check_finite(torch.from_numpy(losses))
        mean = losses @ n_samples / n_samples.sum()
        self.history.record_batch(f"{prefix}_loss", mean.item())
        self.history.record_batch(f"{prefix}_batch_size", sum(sizes))
        self.history.record(f"{prefix}_batch_count", len(sizes))
        for name, values in trace.items():
            if values:
                values = torch.cat([torch.as_tensor(value) for value in values])
                self.history.record_batch(name, values.double().tolist())

    def train_step(self, batch, **fit_params):
        """Make one optimizer step. Return the loss and the scores, both detached."""
        rows, (target, weight) = batch
        listeners = self._listeners("on_grad_computed")
        result, lengths, trace = [], {}, self.criterion_.trace

        def closure():
            self.optimizer_.zero_grad()
            with self.autocast():
                scores = (self.forward_in_training or self.module_)(rows)
            if self.precision is not None:
                scores = scores.to(self.dtype)
            if scores.numel() != len(rows) * self.n_members * self.n_outputs:
                raise ValueError(
                    f"module must return {self.n_members * self.n_outputs} scores per sample in "
                    f"training, too; got shape {tuple(scores.shape)} for {len(rows)} samples"
                )
            loss = self.criterion_.backward(scores, target, weight)
            for callback in listeners:
                named = list(self.module_.named_parameters())
                callback.on_grad_computed(self, named_parameters=named, batch=batch, training=True)
            # Some optimizers call `closure` several times per step. Record only the first result.
            if not result:
                result.extend((loss, scores.detach()))
                lengths.update({name: len(values) for name, values in trace.items()})
            return loss

        self.optimizer_.step(closure)
        for name, length in lengths.items():
            del trace[name][length:]
        return result

    def plain_history(self):
        """Return the history as a list with one dict per epoch. Values per step become arrays."""
        plain = []
        for row in self.history_.to_list():
            steps = {k: np.array(v) for k, v in row["batches"][0].items() if isinstance(v, list)}
            values = {name: value for name, value in row.items() if name != "batches"}
            values = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
            plain.append(steps | values)
        return plain

    def autocast(self):
        """Return the context for a forward pass with automatic mixed precision."""
        if self.precision is None:
            return nullcontext()
        device = torch.device(self.device).type
        return torch.autocast(device, dtype=getattr(torch, self.precision))

    def score_chunks(self, rows, module=None):
        """Yield ``(slice, scores)`` for each chunk of samples, with the network in eval mode.

        The n scores of a chunk have shape (n, n_outputs) or (n, n_members, n_outputs).
        """
        module = self.module_ if module is None else module
        note_threads()
        with evaluating(self.module_):
            for chunk in rows.chunks(self.n_members * self.n_outputs):
                # Predict without mixed precision, because rounding would cause ties between scores.
                with torch.inference_mode():
                    scores = module(rows[chunk])
                yield chunk, scores.to(self.dtype)

    def scores(self, X):
        """Return the scores averaged over ensemble members, an array (n_samples, n_outputs).

        For `HeldOutRows`, each sample gets the mean of the networks that hold out the sample.
        """
        if isinstance(X, HeldOutRows):
            return np.concatenate([self.scores(part) for part in X.parts])
        if isinstance(X, FoldRows):
            each = [self.scores_of_member(X.rows, m) for m in X.members]
            return (sum(each) / len(each)).numpy()
        each = (mean_of_members(scores) for _, scores in self.score_chunks(self.rows(X)))
        return torch.cat([scores.reshape(len(scores), -1).cpu() for scores in each]).numpy()

    def scores_of_member(self, X, m):
        """Return the scores of ensemble member m, a CPU tensor (n_samples, n_outputs)."""
        chunks = self.score_chunks(self.rows(X), score_of_member(self.module_, m))
        return torch.cat([scores.reshape(len(scores), -1) for _, scores in chunks]).cpu()

    def scores_by_member(self, X):
        """Return the first output of each ensemble member, a tensor (n_samples, n_members)."""
        return torch.cat([scores[..., 0].cpu() for _, scores in self.score_chunks(self.rows(X))])

    def loss_of(self, scores, y, weight):
        """Return the mean loss of samples with y >= 0. The random generator keeps its state."""
        noise = self.criterion_.generator
        state = None if noise is None else noise.get_state()
        known = y >= 0
        total, step, n_used = weight[known].sum(), len(y), 2 if (weight == 1).all() else 3
        if not total:
            return 0.0
        if self.n_outputs > 1:  # a mean over samples, here in chunks to save memory
            step = max(1, LOSS_NUMBERS // self.n_outputs)
        values, loss = [scores[known], y[known], weight[known]], 0.0
        for start in range(0, len(values[0]), step):
            part = [torch.from_numpy(each[start : start + step]) for each in values]
            with torch.no_grad():
                own = self.criterion_(*(each.to(self.device) for each in part[:n_used])).item()
            loss += own * float(part[2].sum() / total)
        if state is not None:
            noise.set_state(state)
        return loss

    # skorch's scoring callbacks call the methods below, with labels 0, 1, 2, ...

    def decision_function(self, X):
        return self.head.decide(self.scores(X))

    def predict(self, X):
        y_score = self.decision_function(X)
        return (y_score > 0).astype(int) if y_score.ndim == 1 else y_score.argmax(axis=1)

    @available_if(lambda net: net.head.proba)
    def predict_proba(self, X):
        return self.head.proba(self.scores(X))

    def _listeners(self, method):
        """Return the callbacks that override the method `method` of skorch's `Callback`."""
        silent = getattr(Callback, method)
        return [cb for _, cb in self.callbacks_ if getattr(type(cb), method, silent) is not silent]

    def _callbacks_read_batches(self):
        """Return whether a user's callback overrides a method that receives minibatches."""
        methods = ("on_batch_begin", "on_batch_end", "on_grad_computed")
        heard = [getattr(type(cb), name) for name in methods for cb in self._listeners(name)]
        places = [getattr(each, "__module__", "") for each in heard]
        return not all(place.startswith(("skorch.", "sktopk.")) for place in places)

    def _check_finite(self, losses):
        if self.first_loss_ is None:
            self.first_loss_ = losses[0].abs().clamp(min=1).item()
        refused = (~(losses.abs() < MOST_GROWTH * self.first_loss_)).nonzero()
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
        remedies += self.criterion_.losses[0].remedies
        raise DivergedError(
            f"Training diverged: {what} of epoch {len(self.history)}. Try to "
            f"{' or '.join(remedies)}"
        )


@contextmanager
def evaluating(module):
    """Context manager: put a module in eval mode, and restore the mode of each submodule."""
    training = [part for part in module.modules() if part.training]
    if training:
        module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _is_bounded(parameter):
    """Return whether a parameter is finite and, if it requires a gradient, not too large."""
    return bool((parameter.abs() < (MOST_WEIGHT if parameter.requires_grad else torch.inf)).all())


def _build_module(module, n_features, n_outputs, n_members, params, generator):
    # Create weights in float32, so that they do not depend on torch's default dtype.
    own = {"dtype": torch.float32, "generator": generator} if module in OURS else {}
    packed = {"n_members": n_members} if n_members > 1 and packs_members(module) else {}

    def build():
        try:
            built = module(n_features, n_outputs, **own, **packed, **params)
        except TypeError:
            check_call(module, "module", "n_features", "n_outputs", **packed, **params)
            raise
        if not isinstance(built, torch.nn.Module):
            raise TypeError(f"module must build an nn.Module; got {type(built).__name__}")
        if any(torch.nn.parameter.is_lazy(p) for p in built.parameters()):
            raise ValueError("module must not have lazy layers: give each layer its input size")
        return built

    if n_members == 1 or packed:
        return build()
    return Members(build() for _ in range(n_members))


def _are_probabilities(scores):
    """Return whether all scores are nonnegative and the scores of each sample sum to 1."""
    if scores.ndim < 2 or scores.shape[1] < 2:
        return False
    sums = scores.detach().double().sum(1)
    return bool(((sums - 1).abs().max() < 1e-2) & (scores.min() >= 0))

"""Objectives: modules that compute the loss of each network of an ensemble.

A call ``objective(scores, target, weight, drawn)`` returns one loss for each network. Each network
has its own samples. Scores have shape (n_members, n_samples, n_outputs), target and weight have
shape (n_members, n_samples). Weights are float64 of any scale; None means 1. See also `Drawn`.
"""

import inspect
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from sktopk.losses._accuracy_at_top import SURROGATES, check_errors, distance, largest_score
from sktopk.losses._cross_entropy import cross_entropy_loss
from sktopk.losses._loss import REDUCTIONS, LossModule, as_tensor, nan_above, reduce
from sktopk.losses._thresholds import within_group

# Label smoothing of cross-entropy. It increases top-1 accuracy.
LABEL_SMOOTHING = 0.1


@dataclass(frozen=True)
class Totals:
    """Sums and means of the training samples' weights, for each network or each of the `Lists`."""

    weight: torch.Tensor  # sum of the weights of each class: (n_classes, n_members)
    mean: torch.Tensor  # mean of the positive weights of each class: (n_classes, n_members)
    unit: torch.Tensor  # mean of all weights: (n_members,)

    def of(self, members):
        return Totals(self.weight[:, members], self.mean[:, members], self.unit[members])


@dataclass(frozen=True)
class Drawn:
    """Information for an objective about the samples that networks have drawn."""

    totals: Totals  # totals of the training samples of these networks
    # Each network's first `n_fresh` samples (None: all) are drawn for this minibatch. The rest are
    # hard examples, kept from earlier minibatches only to estimate the threshold.
    n_fresh: int | None = None
    # Mask (n_members, n_fresh): drawn samples that are hard examples or were drawn before.
    repeated: torch.Tensor | None = None
    lists: "Lists | None" = None  # the groups of samples, if `fit` got groups
    n_hard: int = 0  # number of hard examples for the next minibatch


@dataclass(frozen=True)
class Lists:
    """Groups, or parts of groups, in a minibatch. Each has its own threshold."""

    # (n_lists, longest): sample indices of each list, in flattened arrays (n_members, n_samples).
    place: torch.Tensor
    known: torch.Tensor  # mask of the entries of `place` that are not padding
    totals: Totals  # totals of the groups, with one column per list
    # Factors (3, n_lists) for the losses of negatives, of positives, and of both classes of a list.
    # With these factors, the mean loss of an epoch is about the mean over groups with such samples.
    share: torch.Tensor


class Objective(nn.Module):
    """Base class of objectives."""

    compares = False  # whether the loss compares samples; if so, processes join them
    draws = False  # whether the loss draws noise, from `generator`
    takes_scores = True  # whether the loss takes any real scores, not probabilities
    is_fixed = True  # whether each call runs the same operations, and reads no values on the CPU
    remedies = ()  # advice to users if training diverges
    n_hard = 0  # number of hard examples for the next minibatch
    hardest = None  # positions of hard examples in the last call, see :class:`TopLoss`
    threshold_now = None  # scalar Tensor, the mean threshold in the last call, if there is one
    generator = None

    def seed(self, generator):
        """Draw noise from this torch.Generator from now on."""
        self.generator = generator


def mean_loss(losses, weight, drawn):
    """Return each network's mean loss, with weights scaled to mean 1 in its training set."""
    # The mean weight is that of the network's training samples, not of the minibatch.
    if weight is None:
        return losses.mean(1)
    scale = (weight / drawn.totals.unit.unsqueeze(1)).to(losses.dtype)
    # Use `where`: a sample of weight 0 may have an infinite loss, and 0 * inf is NaN.
    return torch.where(weight == 0, 0.0, losses * scale).mean(1)


def positive_totals(totals):
    """Return total weights (n_members, n_classes). Replace 0 by the smallest positive total."""
    weight = totals.weight.T
    least = torch.where(weight > 0, weight, torch.inf).amin(1, keepdim=True)
    return torch.where(weight > 0, weight, least)


class SampleLoss(Objective):
    """Mean over samples of ``function(scores, target, reduction="none", **parameters)``."""

    def __init__(self, function, parameters, *, counts=False, draws=False):
        super().__init__()
        self.function, self.parameters = function, dict(parameters)
        # Whether the function takes `class_counts`, and whether it takes a `generator`.
        self.counts, self.draws = counts, draws
        self.remedies = ("raise tau",) if "tau" in self.parameters else ()

    def forward(self, scores, target, weight, drawn):
        params = {"reduction": "none", **self.parameters}
        if self.draws:
            params["generator"] = self.generator
        if self.counts:
            counts = positive_totals(drawn.totals)
            counts = counts / counts.amax(1, keepdim=True)  # only the proportions of counts matter
            params["class_counts"] = counts.repeat_interleave(target.shape[1], 0)
        losses = self.function(scores.flatten(0, 1), target.flatten(), **params)
        return mean_loss(losses.view_as(target), weight, drawn)


class CrossEntropy(Objective):
    r"""Cross-entropy of :math:`\alpha s + \tau \log \pi`, with label smoothing.

    Here s are the scores. :math:`\pi` are the class frequencies in `class_counts`, or else in the
    training set. :math:`\alpha` is `scale`, and :math:`\tau` is `tau`.
    """

    def __init__(self, scale=1.0, tau=0.0, class_counts=None):
        super().__init__()
        self.scale, self.tau = scale, tau
        counts = None if class_counts is None else as_tensor(class_counts, "class_counts").double()
        self.register_buffer("class_counts", counts, persistent=False)

    def forward(self, scores, target, weight, drawn):
        scores = self.scale * scores if self.scale != 1 else scores
        if self.tau:
            counts = self.class_counts
            counts = positive_totals(drawn.totals) if counts is None else counts.unsqueeze(0)
            prior = (counts / counts.sum(1, keepdim=True)).log()
            scores = scores + (self.tau * prior).to(scores.dtype).unsqueeze(1)
        options = {"label_smoothing": LABEL_SMOOTHING, "reduction": "none"}
        losses = cross_entropy_loss(scores.flatten(0, 1), target.flatten(), **options)
        return mean_loss(losses.view_as(target), weight, drawn)


class TwoClassCrossEntropy(Objective):
    """Cross-entropy of two classes. Each sample has one score, the log-odds of the positives."""

    compares = True

    def forward(self, scores, target, weight, drawn):
        scores, positive = scores.squeeze(-1), target.bool()
        share = proportional(positive, drawn.totals)
        share = share if weight is None else share * weight
        return F.binary_cross_entropy_with_logits(
            scores, positive.to(scores.dtype), share.to(scores.dtype), reduction="none"
        ).sum(1)


def proportional(positive, totals):
    """Return factors for sample weights, so that classes are weighted as in the training set."""
    # If a minibatch has both classes, its weights multiplied by these factors sum to about 1.
    n_samples, n_positives = positive.shape[1], positive.sum(1)
    # Estimate the weight of each class in the minibatch: its number of samples times `totals.mean`.
    seen = torch.stack([n_samples - n_positives, n_positives]) * totals.mean
    share = totals.weight / totals.weight.sum(0) / seen.clamp(min=1e-300)
    return torch.where(positive, share[1].unsqueeze(1), share[0].unsqueeze(1))


class TopLoss(Objective):
    r"""Errors at a threshold, which is estimated for the whole training set.

    A minibatch contains new samples and hard examples from earlier minibatches. Its class
    proportions differ from the training set. The threshold is therefore computed with weights: hard
    examples keep their sample weights, and the weights of new samples of class c are multiplied by

    .. math:: \frac{N_c - W_c(\text{hard})}{W_c(\text{new})}

    where :math:`N_c` is the total weight of class c in the training set. :math:`W_c(\text{hard})`
    and :math:`W_c(\text{new})` are the weights of class c among hard examples and among new ones.
    Hard examples affect only the threshold: the loss counts only errors of new samples.

    Hard examples are scored again in each minibatch, because the gradient needs current scores
    (Adam, Macha, Smidl 2020, algorithm 3.1, step 4). With groups, there are no hard examples.

    `threshold` is a threshold of :mod:`sktopk.losses`, or a function ``threshold(scores, positive,
    weight)`` that returns a scalar with a gradient. `hardest` has the positions, in the minibatch,
    of the `n_hard` hard examples for the next minibatch. Hard examples have the highest scores of
    the samples that determine the threshold (if these are only positives: the lowest scores). If
    these samples are fewer than `n_hard`, other samples are added.
    """

    compares = True

    def __init__(self, threshold, errors, surrogate, n_hard):
        super().__init__()
        self.threshold, self.surrogate, self.n_hard = threshold, SURROGATES[surrogate], n_hard
        self.kinds = check_errors(errors)
        # Operations vary in a user's function, and in Newton steps for other surrogates than hinge.
        is_ours = hasattr(threshold, "of")
        self.is_fixed = is_ours and getattr(threshold, "surrogate", "hinge") == "hinge"

    def forward(self, scores, target, weight, drawn):
        scores, positive = scores.squeeze(-1), target.bool()
        if scores.dtype in (torch.float16, torch.bfloat16):
            scores = scores.float()
        if drawn.lists is None:
            return self._losses(scores, positive, weight, drawn)
        weight = torch.ones_like(scores, dtype=torch.float64) if weight is None else weight
        place, known = drawn.lists.place, drawn.lists.known
        scores, positive, weight = (each.flatten()[place] for each in (scores, positive, weight))
        weight = weight.masked_fill(~known, 0.0)
        losses = self._losses(scores, positive, weight, drawn)
        # The caller only adds the losses of all networks. Return an equal share for each network.
        return losses.sum().expand(len(target)) / len(target)

    def _losses(self, scores, positive, weight, drawn):
        lists, n_fresh = drawn.lists, drawn.n_fresh or scores.shape[1]
        totals = drawn.totals if lists is None else lists.totals
        own = torch.ones_like(scores, dtype=torch.float64) if weight is None else weight.clone()
        if drawn.repeated is not None:
            own[:, :n_fresh].masked_fill_(drawn.repeated, 0.0)  # count a repeated sample once
        t = self.threshold_of(scores, positive, in_training_set(own, positive, n_fresh, totals))
        found = t.detach() if lists is None else t.detach()[t.detach() > -math.inf]
        self.threshold_now = found.mean() if len(found) else t[0].detach()
        if drawn.n_hard:
            of, key = getattr(self.threshold, "of", "all"), scores.detach()
            absent = within_group(own, positive, of) == 0
            key = (-key if of == "positives" else key).masked_fill(absent, -math.inf)
            self.hardest = key.topk(min(drawn.n_hard, key.shape[1]), dim=1).indices
        largest, losses = largest_score(scores.detach(), weight), []
        scores, positive = scores[:, :n_fresh], positive[:, :n_fresh]
        weight = None if weight is None else weight[:, :n_fresh]
        for kind, factor in self.kinds:
            above = kind == "false_positives"
            counted = ~positive if above else positive
            counted = counted if weight is None else counted & (weight > 0)
            # Estimate the weight of the counted samples: number times mean weight of the class.
            total = counted.sum(1) * totals.mean[int(not above)]
            total = total.masked_fill(total == 0, 1.0).unsqueeze(1)
            scale = (total.reciprocal() if weight is None else weight / total).to(scores.dtype)
            wrong = distance(t.unsqueeze(1), scores, counted, kind)
            loss = (self.surrogate(wrong) * scale).sum(1)
            loss = loss if lists is None else lists.share[int(not above)] * loss
            losses.append(loss if factor == 1 else factor * loss)
        return nan_above(sum(losses[1:], losses[0]), largest)

    def threshold_of(self, scores, positive, counts):
        """Return the threshold of each row of scores."""
        if hasattr(self.threshold, "of"):
            return self.threshold(scores, positive, counts)
        t = map(self.threshold, scores, positive, counts.to(scores.dtype))
        return torch.stack([torch.as_tensor(each, device=scores.device).reshape(()) for each in t])


def in_training_set(weight, positive, n_fresh, totals):
    """Scale weights of the first `n_fresh` samples: each class then sums to `totals.weight`."""
    of_class = weight * torch.stack([~positive, positive])
    new, hard = of_class.tensor_split([n_fresh], dim=2)
    there, missing = new.sum(2), totals.weight - hard.sum(2)
    new *= (missing.clamp(min=0) / there.masked_fill(there == 0, 1.0)).unsqueeze(2)
    return of_class.sum(0)


class BatchLoss(Objective):
    """Loss that compares the samples of a minibatch, such as AUC.

    Samples are weighted so that the classes have the proportions of the training set. `loss` is a
    module that is called as ``loss(scores, positive, sample_weight=...)``. With groups,
    the module also gets `groups`, and returns the mean over the groups with both classes.
    """

    compares = True

    def __init__(self, loss):
        super().__init__()
        self.loss, self.remedies = loss, ("raise margin",) if hasattr(loss, "margin") else ()

    def forward(self, scores, target, weight, drawn):
        scores, positive = scores.squeeze(-1), target == 1
        weight = torch.ones_like(scores, dtype=torch.float64) if weight is None else weight
        if drawn.lists is None:
            weight = weight * proportional(positive, drawn.totals) * len(scores[0])
            values = zip(scores, positive, weight.to(scores.dtype), strict=True)
            return torch.stack([self.loss(s, y, sample_weight=w) for s, y, w in values])
        lists = drawn.lists
        positive, weight = positive.flatten()[lists.place], weight.flatten()[lists.place]
        n, counts = positive.shape[1], weight * lists.known
        counts = in_training_set(counts, positive, n, lists.totals)[lists.known]
        codes = torch.arange(len(lists.place), device=target.device).unsqueeze(1)
        codes, place = codes.expand_as(lists.place)[lists.known], lists.place[lists.known]
        scores, positive = scores.flatten()[place], positive[lists.known]
        value = self.loss(scores, positive, sample_weight=counts, groups=codes)
        return lists.share[2].sum() / len(target) * value.expand(len(target))


class CustomLoss(Objective):
    """A user's nn.Module or function ``loss(scores, target)``, with sample weights.

    For sample weights, the loss must take `sample_weight` or have an attribute `reduction`. If it
    only has `reduction`, this attribute is set to "none" during the call.
    """

    is_fixed = False

    def __init__(self, loss):
        super().__init__()
        self.name = name_of(loss)
        names = inspect.signature(loss.forward if isinstance(loss, nn.Module) else loss).parameters
        self.takes_weight = "sample_weight" in names
        loss = loss if isinstance(loss, nn.Module) else FunctionLoss(loss)
        self.loss, self.remedies = loss, ("raise margin",) if hasattr(loss, "margin") else ()
        ours = [each for each in loss.modules() if isinstance(each, LossModule)]
        self._drawing = [each for each in ours if each.takes_generator]
        self.draws = bool(self._drawing)
        # With these losses, `fit` warns of probabilities as scores. Other losses may need them.
        self.takes_scores = isinstance(loss, LossModule | nn.CrossEntropyLoss)

    def seed(self, generator):
        super().seed(generator)
        for module in self._drawing:
            module.generator = generator

    def forward(self, scores, target, weight, drawn):
        if weight is None:
            each = zip(scores, target, strict=True)
            return torch.stack([self._value(s, y, None) for s, y in each])
        weight = (weight / drawn.totals.unit.unsqueeze(1)).to(scores.dtype)
        each = zip(scores, target, weight, strict=True)
        # The weighted mean times the mean weight is the weighted sum, divided by n_samples.
        return torch.stack([self._value(s, y, w) * w.mean() for s, y, w in each])

    def _value(self, scores, target, weight):
        """Return the weighted mean loss of the samples of one network."""
        reduction = getattr(self.loss, "reduction", None)
        if reduction in REDUCTIONS:
            is_mean = reduction == "mean"
            of_class = None
            if is_mean and isinstance(self.loss, nn.CrossEntropyLoss | nn.NLLLoss):
                of_class = self.loss.weight
            # Do not set another `reduction` here, because the loss may support only "mean".
            if is_mean and of_class is None and weight is None:
                return self._checked(self.loss(scores, target))
            if is_mean and self.takes_weight:
                return self._checked(self.loss(scores, target, sample_weight=weight))
            self.loss.reduction = "none"
            try:
                each = self._checked(self.loss(scores, target))
            finally:
                self.loss.reduction = reduction
            if each.shape != target.shape:
                text = f"one value per sample; got shape {tuple(each.shape)} from {self.name}"
                raise TypeError(f'loss with reduction="none" must return {text}')
            if of_class is None:
                return reduce(each, weight)
            # These losses divide by the sum of the class weights, which is 0 in some minibatches.
            weight = torch.ones_like(each) if weight is None else weight
            total = (weight * of_class[target])[target != self.loss.ignore_index].sum()
            return (weight * each).sum() / torch.where(total == 0, 1.0, total)
        if weight is None:
            return self._checked(self.loss(scores, target)).mean()
        if not self.takes_weight:
            raise TypeError(
                "sample_weight and class_weight need a loss that takes sample_weight or has a "
                f"reduction attribute; got loss={self.name}"
            )
        value = self._checked(self.loss(scores, target, sample_weight=weight))
        if value.ndim:
            raise TypeError(
                "loss takes sample_weight, so it must return the weighted mean, a scalar; got "
                f"shape {tuple(value.shape)} from {self.name}"
            )
        return value

    def _checked(self, value):
        is_tensor = isinstance(value, torch.Tensor)
        if not is_tensor or (torch.is_grad_enabled() and not value.requires_grad):
            came = "a Tensor without a gradient" if is_tensor else type(value).__name__
            raise TypeError(f"loss must return a Tensor with gradient; got {came} from {self.name}")
        return value


class FunctionLoss(nn.Module):
    """Module that calls a loss function. The function may take `sample_weight` and `reduction`."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        if "reduction" in inspect.signature(function).parameters:
            self.reduction = "mean"

    def forward(self, scores, target, **weight):
        if hasattr(self, "reduction"):
            weight["reduction"] = self.reduction
        return self.function(scores, target, **weight)


def name_of(loss):
    """Return the loss if it is a name, else the name of the function or of the module's class."""
    return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)


class Mixture(Objective):
    """Weighted mean of the estimator's loss and of a cross-entropy of the same scores."""

    def __init__(self, named, cross_entropy, share):
        super().__init__()
        self.named, self.cross_entropy, self.share = named, cross_entropy, share
        self.compares, self.draws, self.is_fixed = named.compares, named.draws, named.is_fixed
        self.n_hard, self.remedies = named.n_hard, named.remedies

    def seed(self, generator):
        super().seed(generator)
        self.named.seed(generator)

    def forward(self, scores, target, weight, drawn):
        loss = self.named(scores, target, weight, drawn)
        if self.share == 0:
            return loss
        values = scores, target, weight
        # Cross-entropy does not use the hard examples of earlier minibatches.
        fresh = (None if each is None else each[:, : drawn.n_fresh] for each in values)
        return (1 - self.share) * loss + self.share * self.cross_entropy(*fresh, drawn)

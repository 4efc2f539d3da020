"""The layers of several multi-layer perceptrons, with a gradient of their own."""

import torch


class MemberLayers(torch.autograd.Function):
    r"""Linear layers of several networks with ReLU between them: scores, and their gradient.

    .. math::
        f = W_L h_{L-1} + b_L, \qquad h_l = \max(0, W_l h_{l-1} + b_l), \qquad h_0 = x

    What the layers say one by one, in two thirds of the time: the hidden layers of several networks
    are too large for the cache, so that each pass over their numbers counts.

    Applied to rows that ask for no gradient, (n_samples, n_features) that all members read or
    (n_members, n_samples, n_features), and to the weight and the bias of each layer in turn, as in
    :class:`MemberLinear`. Returns the scores (n_members, n_samples, n_outputs) and, for the way
    back alone, the hidden layers.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x, *parameters):
        layers = _inputs(x, parameters)
        return _linear(layers[-1], *parameters[-2:]), *layers[1:]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx, gradient, *_):
        if gradient is None:  # What autograd has for zeros.
            return (None,) * len(ctx.needs_input_grad)
        n_layers = len(ctx.saved_tensors) // 3
        x, *parameters = ctx.saved_tensors[: 2 * n_layers + 1]
        layers = [_for_each(x, parameters), *ctx.saved_tensors[2 * n_layers + 1 :]]
        if torch.is_grad_enabled():
            # Whoever differentiates twice needs them with a graph.
            layers = _inputs(x, parameters)
        found = []
        for layer in reversed(range(n_layers)):
            weight = torch.bmm(gradient.transpose(1, 2), layers[layer])
            found = [weight, gradient.sum(1), *found]
            if layer:
                gradient = torch.bmm(gradient, parameters[2 * layer])
                gradient = torch.ops.aten.threshold_backward(gradient, layers[layer], 0)
        return None, *found


def _inputs(x, parameters):
    """What each layer is given, of shape (n_members, n_samples, width)."""
    layers = [_for_each(x, parameters)]
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        layers.append(_linear(layers[-1], weight, bias).relu_())
    return layers


def _for_each(x, parameters):
    """Rows for each member, not copied if all read the same."""
    return x if x.dim() == 3 else x.expand(len(parameters[0]), -1, -1)


def _linear(h, weight, bias):
    return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))

"""Train networks on CIFAR-100 as the papers do; stopped runs continue from a checkpoint."""

import functools
import time
from pathlib import Path

import torch
from _image_files import load_cifar100
from torch.nn import functional as F

K = 5
PADDING = 4


@functools.cache
def cifar100(side, per_class, valid_per_class):
    """Return images and labels of training, validation and test set, and the groups of classes.

    Images are averaged down to `side` pixels, and normalised by channel. The training set has
    `per_class` images of each class, the validation set `valid_per_class`, and the test set all
    test images. Classes are numbered alphabetically, as in the published code.
    """
    bunches = [load_cifar100("train"), load_cifar100("test")]
    images = [torch.from_numpy(bunch.data) for bunch in bunches]
    labels = [torch.from_numpy(bunch.target) for bunch in bunches]
    if side < images[0].shape[-1]:
        images = [F.avg_pool2d(x, images[0].shape[-1] // side) for x in images]
    mean, std = (f(images[0], (0, 2, 3), keepdim=True).squeeze(0) for f in (torch.mean, torch.std))
    images = [(x - mean) / std for x in images]
    # Images are sorted by class. Every run has the same images, as in the published code.
    generator = torch.Generator().manual_seed(1234)
    place = torch.stack([torch.randperm(500, generator=generator) for _ in range(100)])
    rows = place + 500 * torch.arange(100)[:, None]
    n = valid_per_class
    valid, train = rows[:, :n].flatten(), rows[:, n : n + per_class].flatten()
    parts = [(images[0][part], labels[0][part]) for part in (train, valid)]
    return [*parts, (images[1], labels[1])], bunches[0].groups


def augmented(images, generator):
    """Flip half of the images, pad all images with zeros, and crop each at random."""
    n, _, height, width = images.shape
    device = images.device
    flip = torch.rand(n, generator=generator, device=device) < 0.5
    images = torch.where(flip[:, None, None, None], images.flip(3), images)
    images = F.pad(images, [PADDING] * 4)
    offset = torch.randint(2 * PADDING + 1, (2, n, 1), generator=generator, device=device)
    rows = (offset[0] + torch.arange(height, device=device))[:, None, :, None]
    columns = (offset[1] + torch.arange(width, device=device))[:, None, None, :]
    which = torch.arange(n, device=device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=device)[None, :, None, None]
    return images[which, channel, rows, columns]


def accuracies(network, images, labels, batch_size=1000):
    """Return top-1 and top-K accuracy."""
    network.eval()
    hits = torch.zeros(2)
    with torch.inference_mode():
        for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
            found = network(x).topk(K).indices == y[:, None]
            hits += torch.stack([found[:, 0].sum(), found.sum()]).cpu()
    return (hits / len(labels)).tolist()


def train(
    network,
    loss,
    parts,
    *,
    epochs,
    seed,
    rate=0.1,
    weight_decay=1e-4,
    batch_size=64,
    device="cpu",
    checkpoint=None,
    end=float("inf"),
):
    """Train with the schedule of the papers; return a dict of results, or None if time ran out.

    The optimizer is stochastic gradient descent with Nesterov's momentum 0.9. The learning rate is
    divided by ten after a half and three quarters of the epochs. The network of the epoch with the
    best top-K accuracy on validation images is tested. If `checkpoint` is given, the state is saved
    after each epoch, and a later call continues from there. No epoch begins after the time `end`
    (of ``time.time()``).
    """
    (X, y), valid, test = [tuple(t.to(device) for t in part) for part in parts]
    network = network.to(device)
    optimizer = torch.optim.SGD(
        network.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=weight_decay
    )
    milestones = [epochs // 2, 3 * epochs // 4]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones)
    generator = torch.Generator(device).manual_seed(seed)
    state = {"epoch": 0, "best": -1.0, "weights": None, "errors": []}
    if checkpoint is not None and Path(checkpoint).is_file():
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
        state = saved["state"]
        for part, name in [(network, "network"), (optimizer, "optimizer"), (schedule, "schedule")]:
            part.load_state_dict(saved[name])
        generator.set_state(saved["generator"])
    while state["epoch"] < epochs:
        if time.time() > end:
            return None
        network.train()
        missed = torch.zeros((), device=device)
        for rows in torch.randperm(len(y), generator=generator, device=device).split(batch_size):
            scores = network(augmented(X[rows], generator))
            optimizer.zero_grad()
            value = loss(scores, y[rows])
            value.backward()
            optimizer.step()
            missed += (scores.detach().topk(K).indices != y[rows, None]).all(1).sum()
        schedule.step()
        state["epoch"] += 1
        state["errors"].append(round(missed.item() / len(y), 4))
        if not value.isfinite():
            raise ValueError(f"the loss became {value.item():g} in epoch {state['epoch']}")
        _, topk = accuracies(network, *valid)
        if topk > state["best"]:
            weights = {k: v.detach().cpu().clone() for k, v in network.state_dict().items()}
            state["best"], state["weights"] = topk, weights
        if checkpoint is not None:
            _save(checkpoint, state, network, optimizer, schedule, generator)
    last_train = accuracies(network, X, y)[1]
    last_test = accuracies(network, *test)[1]
    network.load_state_dict(state["weights"])
    top1, topk = accuracies(network, *test)
    if checkpoint is not None:
        Path(checkpoint).unlink()
    return {
        "top1": top1,
        "top5": topk,
        "valid_top5": state["best"],
        "last_train_top5": last_train,
        "last_test_top5": last_test,
        "train_errors": " ".join(map(str, state["errors"])),
    }


def _save(checkpoint, state, network, optimizer, schedule, generator):
    """Write a new file, then replace the last checkpoint: a stopped process leaves a whole file."""
    parts = {"network": network, "optimizer": optimizer, "schedule": schedule}
    content = {name: part.state_dict() for name, part in parts.items()}
    content |= {"state": state, "generator": generator.get_state()}
    path = Path(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)

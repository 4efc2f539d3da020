"""Members that train on candidates: each as if it were alone, on the labels of its own rows."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sktopk import TopKClassifier
from sktopk._common._folds_by_content import deal_distinct
from sktopk._common._row_keys import row_keys
from sktopk._estimators import _net_classifier
from sktopk._training._candidates import CandidateNet
from sktopk._training._class_blocks import class_axis, last_layers
from sktopk.io import dump, load
from sktopk.losses import smooth_topk_loss
from sktopk.modules import MLP, Members, TabularMLP
from sktopk.modules._members import of_member
from tests.crashing import Crash, check_same, crash_and_resume, fitted_state

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_CLASSES, N_ROWS, N_MEMBERS = 30, 180, 3
RNG = np.random.default_rng(0)
Y = RNG.permutation(np.arange(N_ROWS) % N_CLASSES)
X = RNG.standard_normal((N_CLASSES, 6))[Y] + 0.5 * RNG.standard_normal((N_ROWS, 6))

NETWORKS = {
    "packed": {},
    "packed, linear": {"module": TabularMLP, "hidden_layer_sizes": ()},
    "copies": {"module": MLP},
    "copies of a network of tables": {"module": lambda d, c: TabularMLP(d, c, (4,))},
}


def quick(loss="smooth_topk", **params):
    params = {
        "k": 2,
        "n_candidates": 8,
        "n_members": N_MEMBERS,
        "hidden_layer_sizes": (5,),
        "cross_fit": True,
        "warm_up": 1,
        "batch_size": 12,
        "max_epochs": 2,
        "random_state": 0,
        **params,
    }
    return TopKClassifier(loss, **params)


@pytest.mark.parametrize("name", NETWORKS)
def test_with_room_for_all_classes_it_is_the_fit_without(name):
    params = {"early_stopping": True, **NETWORKS[name]}
    clf = quick(n_candidates=N_CLASSES, **params).fit(X, Y, X_val=X[:40], y_val=Y[:40])
    plain = quick(n_candidates=None, **params).fit(X, Y, X_val=X[:40], y_val=Y[:40])
    assert isinstance(clf.net_, CandidateNet)
    assert not isinstance(plain.net_, CandidateNet)
    for one, other in zip(clf.history_, plain.history_, strict=True):
        assert one["train_loss"] == other["train_loss"]
        assert one["valid_score"] == other["valid_score"]
        assert one["valid_loss"] == pytest.approx(other["valid_loss"])
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(clf.oob_decision_function_, plain.oob_decision_function_)
    assert clf.oob_score_ == plain.oob_score_


def masks_of(net, own):
    """By parameter: which of its numbers a step may change, of the classes that each member has."""
    masks, layers = {}, last_layers(net)
    for m, layer in enumerate(layers):
        of_layer = own if class_axis(layer) and len(layers) == 1 else own[m]
        for parameter in layer.parameters():
            shape = [N_CLASSES if n == N_CLASSES else n for n in parameter.shape]
            mask = of_layer if of_layer.ndim > class_axis(layer) else of_layer[None]
            mask = mask.view(*mask.shape, *[1] * (parameter.ndim - mask.ndim))
            masks[parameter] = mask.expand(shape)
    return masks


@pytest.mark.parametrize("folds", [True, False], ids=["rows of their own", "all rows"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_is_that_of_each_member_on_its_own_candidates(name, folds):
    """Against a loop over members, labels and draws, and the formula of SGD with momentum."""
    rate, momentum, decay, share = 0.1, 0.9, 0.01, 0.3
    clf = quick(
        cross_fit=folds,
        optimizer="sgd",
        learning_rate=4 * rate,
        weight_decay=decay,
        net_params={"optimizer__momentum": momentum},
        cross_entropy_share=share,
        early_stopping=False,
        score_scale=7.0,
        tau=0.6,
        dtype="float64",
        **NETWORKS[name],
    ).fit(X, Y)
    net = clf.net_
    net.module_.train()
    assert net.criterion_.warm
    assert net.optimizer_.param_groups[0]["lr"] == pytest.approx(rate)
    generator, drawing = torch.Generator(), net._losses[0].generator
    fold = torch.arange(N_ROWS) % N_MEMBERS
    for step in range(3):
        index = torch.arange(step, N_ROWS, 16)
        rows, target = torch.from_numpy(X)[index], torch.from_numpy(Y)[index]
        weight = None
        if folds:
            weight = 1.0 + torch.rand(len(index), N_MEMBERS, dtype=torch.float64)
            weight *= fold[index].unsqueeze(1) != torch.arange(N_MEMBERS)
        generator.set_state(drawing.get_state())
        drawn = set(torch.randint(N_CLASSES, (8,), generator=generator).tolist())
        twin, total = copy.deepcopy(net.module_), 0.0
        scores, own = twin(rows), torch.zeros(N_MEMBERS, N_CLASSES, dtype=torch.bool)
        for m in range(N_MEMBERS):
            seen = torch.ones(len(index)) if weight is None else weight[:, m]
            labels = {int(j) for i, j in enumerate(target) if seen[i] > 0}
            rest = drawn - labels
            classes = sorted(labels | rest)
            own[m, classes] = True
            stands_for = np.log((N_CLASSES - len(labels)) / len(rest))
            shift = torch.tensor([0.0 if j in labels else stands_for for j in classes])
            for i in range(len(index)):
                if seen[i] == 0:
                    continue
                f = scores[i : i + 1, m, classes]
                label = torch.tensor([classes.index(int(target[i]))])
                top = smooth_topk_loss(7 * f + 2 * 0.6 * shift, label, k=2, tau=0.6)
                value = share * F.cross_entropy(f + shift, label) + (1 - share) * top
                total = total + seen[i] * value / (len(index) * N_MEMBERS)
        total.backward()
        gradients = [each.grad for each in twin.parameters()]
        before = [
            (each.detach().clone(), net.optimizer_.state[each]["momentum_buffer"].clone())
            for each in net.module_.parameters()
        ]
        masks = masks_of(net, own)
        found, _ = net.step((rows, (target, weight)))
        torch.testing.assert_close(found, total.detach(), rtol=1e-6, atol=1e-8)
        parameters = list(net.module_.parameters())
        for parameter, (old, moment), gradient in zip(parameters, before, gradients, strict=True):
            assert parameter.shape == old.shape
            now = net.optimizer_.state[parameter]["momentum_buffer"]
            mask = masks.get(parameter, torch.ones_like(old, dtype=torch.bool))
            new_moment = momentum * moment + gradient + decay * old
            assert torch.equal(parameter[~mask], old[~mask])
            assert torch.equal(now[~mask], moment[~mask])
            torch.testing.assert_close(now[mask], new_moment[mask], rtol=1e-5, atol=1e-8)
            expected = old - rate * new_moment
            torch.testing.assert_close(parameter[mask], expected[mask], rtol=1e-5, atol=1e-8)
        assert 0 < own.sum() < own.numel()


class Started(MLP):
    """A network that starts from weights that are given."""

    given = ()

    def __init__(self, n_features, n_outputs):
        super().__init__(n_features, n_outputs, (4,))
        self.load_state_dict(Started.given.pop(0))


@pytest.mark.parametrize("loss", ["cross_entropy", "smooth_topk", "focal"])
def test_each_member_ends_with_the_weights_of_a_network_alone(loss):
    torch.manual_seed(0)
    weights = [MLP(6, N_CLASSES, (4,)).state_dict() for _ in range(N_MEMBERS)]
    params = {"module": Started, "optimizer": "sgd", "cross_fit": False, "warm_up": 0}
    params |= {"score_scale": 1.0, "weight_decay": 0.0}
    Started.given = [*weights]
    together = quick(loss, learning_rate=N_MEMBERS * 0.05, **params).fit(X, Y)
    for m in range(N_MEMBERS):
        Started.given = [weights[m]]
        alone = quick(loss, **params | {"n_members": 1, "learning_rate": 0.05}).fit(X, Y)
        found = together.net_.module_[m].state_dict()
        for key, expected in alone.net_.module_.state_dict().items():
            torch.testing.assert_close(found[key], expected, rtol=1e-6, atol=1e-9)
        assert not torch.allclose(found["0.weight"], weights[m]["0.weight"].double(), rtol=1e-3)


def weights_of(clf, m):
    state = clf.net_.module_.state_dict()
    return [state[name][index] for name, index in of_member(clf.net_.module_, m).items()]


@pytest.mark.parametrize("warm_up", [0, 1])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_member_never_learns_from_the_rows_that_it_leaves_out(name, warm_up, monkeypatch):
    """Nor of which classes they are: decay and moments do not reach theirs either."""
    fold = deal_distinct(row_keys(X, 0), Y, N_MEMBERS)
    monkeypatch.setattr(_net_classifier, "deal_distinct", lambda *args: fold)
    params = {"warm_up": warm_up, "dtype": "float64", "early_stopping": False, **NETWORKS[name]}
    params |= {"optimizer": "adamw", "weight_decay": 0.5, "learning_rate": 0.01}
    whole = quick(**params).fit(X, Y)
    other = Y.copy()
    out = np.flatnonzero(fold == 1)
    other[out] = np.arange(len(out)) % 3
    changed = quick(**params).fit(X, other)
    for m in range(N_MEMBERS):
        pairs = list(zip(weights_of(changed, m), weights_of(whole, m), strict=True))
        if m != 1:
            assert not all(torch.allclose(*pair, rtol=1e-3, atol=1e-5) for pair in pairs)
            continue
        for found, expected in pairs:
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["packed", "copies"])
def test_copies_and_files_train_on_as_the_original_does(name, tmp_path):
    params = {"early_stopping": False, "warm_start": True, **NETWORKS[name]}
    clf = quick(**params).fit(X, Y)
    loaded = load(dump(clf, tmp_path / "file"))
    pickled = pickle.loads(pickle.dumps(clf))
    for each in (clf, loaded, pickled):
        assert type(each.net_) is CandidateNet
        each.fit(X, Y)
    check_same(fitted_state(loaded), fitted_state(clf))
    check_same(fitted_state(pickled), fitted_state(clf))


@pytest.mark.parametrize("name", ["packed", "copies"])
def test_a_fit_goes_on_after_a_crash_with_the_same_weights(name, tmp_path):
    def make(**params):
        params |= {"early_stopping": True, "callbacks": [("crash", Crash())], **NETWORKS[name]}
        return quick(max_epochs=3, **params)

    expected = make().fit(X, Y)
    clf, first, then = crash_and_resume(
        lambda: make(checkpoint=tmp_path / "checkpoint"), 2, X=X, y=Y
    )
    assert first + then == expected.n_iter_ + 1
    check_same(fitted_state(clf), fitted_state(expected))


def test_pieces_of_a_stream_train_members():
    clf = quick(n_members=2, cross_fit="auto", warm_up=0)
    for part in (slice(90), slice(90, 180)):
        clf.partial_fit(X[part], Y[part], classes=np.arange(N_CLASSES))
    assert isinstance(clf.net_.module_, Members)
    assert clf.n_iter_ == 2


@pytest.mark.parametrize("loss", ["smooth_topk", "cross_entropy"])
def test_members_learn_on_candidates_what_rows_left_out_confirm(loss):
    params = {"max_epochs": 8, "early_stopping": True, "hidden_layer_sizes": (20,)}
    clf = quick(loss, warm_up="auto", learning_rate=0.02, **params).fit(X, Y)
    assert clf.score(X, Y) > 0.9
    # By chance it is 2 / 30.
    assert clf.oob_score_ > 0.5


def test_scores_out_of_fold_that_do_not_fit_are_judged_some_at_a_time(monkeypatch):
    weight = RNG.uniform(0.5, 2, N_ROWS)
    expected = quick(early_stopping=True).fit(X, Y, sample_weight=weight)
    assert expected.oob_decision_function_.shape == (N_ROWS, N_CLASSES)
    place = "sktopk._estimators.labels._topk_classifier.MOST_OUT_OF_FOLD"
    monkeypatch.setattr(place, N_CLASSES * (N_ROWS // 2))
    monkeypatch.setattr("sktopk.metrics._scorer._MOST_SCORES", 7 * N_CLASSES)
    clf = quick(early_stopping=True).fit(X, Y, sample_weight=weight)
    assert not hasattr(clf, "oob_decision_function_")
    assert clf.oob_score_ == pytest.approx(expected.oob_score_)
    valid = [[row["valid_score"] for row in each.history_] for each in (clf, expected)]
    np.testing.assert_allclose(*valid)
    # A temperature of half of the rows.
    assert clf.calibration_[1] == pytest.approx(expected.calibration_[1], rel=0.5)
    assert clf.calibration_[1] != expected.calibration_[1]
    np.testing.assert_allclose(clf.predict_proba(X).sum(1), 1)
    # Without candidates they are kept whatever their size.
    assert hasattr(quick(n_candidates=None).fit(X, Y), "oob_decision_function_")


@pytest.mark.parametrize(
    ("params", "n_members", "network"),
    [
        ({}, 1, MLP),
        ({"n_members": 1}, 1, MLP),
        ({"n_members": 2}, 2, TabularMLP),
        ({"module": TabularMLP}, 8, TabularMLP),
        ({"module": MLP}, 1, MLP),
        ({"module": MLP, "n_members": 2}, 2, Members),
    ],
    ids=str,
)
def test_members_are_there_where_they_are_asked_for(params, n_members, network):
    clf = TopKClassifier(k=2, n_candidates=8, max_epochs=1, random_state=0, **params).fit(X, Y)
    assert clf.net_.n_members == n_members
    assert type(clf.net_.network) is network
    assert hasattr(clf, "oob_score_") == (network is TabularMLP)

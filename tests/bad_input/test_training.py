"""What goes wrong during training: modules, losses, callbacks, scores, streams of data."""

import warnings

import joblib
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback
from torch import nn

from sktopk import TopKClassifier
from tests.bad_input.refusals import NETS, OF_FOUR, Row, X, assert_refused, fit, labels, make

V, T = ValueError, TypeError


class Wrong(nn.Module):
    """A linear network that does one thing wrong."""

    def __init__(self, n_features, n_outputs, what=None):
        super().__init__()
        self.layer, self.what = nn.Linear(n_features, n_outputs), what

    def forward(self, x):
        return WRONG[self.what](self, x, self.layer(x))


class Failed(Exception):
    pass


def fail(*args, **kwargs):
    raise Failed("on purpose")


WRONG = {
    "a tuple": lambda net, x, scores: (scores, scores),
    "None": lambda net, x, scores: None,
    "an array": lambda net, x, scores: scores.detach().numpy(),
    "whole numbers": lambda net, x, scores: scores.long(),
    "no gradient": lambda net, x, scores: scores.detach(),
    "one axis more": lambda net, x, scores: scores.unsqueeze(2),
    "a row less": lambda net, x, scores: scores[1:],
    "a row less in training": lambda net, x, scores: scores[net.training * 1 :],
    "columns more in training": lambda net, x, scores: (
        scores.repeat(1, 2) if net.training else scores
    ),
    "NaN": lambda net, x, scores: scores * torch.nan,
    "NaN in training": lambda net, x, scores: scores * (torch.nan if net.training else 1),
    "an error": fail,
    "an error in training": lambda net, x, scores: fail() if net.training else scores,
    "its input in place": lambda net, x, scores: net.layer(x.mul_(0.5).add_(1)),
    "a leading in-place layer": lambda net, x, scores: net.layer(x.relu_()),
}
MODULES = {
    "a tuple": Row("a tuple", T, "module must return a Tensor of floating.*got tuple"),
    "None": Row("None", T, "module must return a Tensor of floating.*got NoneType"),
    "an array": Row("an array", T, "module must return a Tensor of floating.*got ndarray"),
    "whole numbers": Row("whole numbers", T, "module must return.*got a Tensor of torch.int64"),
    "no gradient": Row("no gradient", V, "module must return scores with a gradient"),
    "one axis more": Row(
        "one axis more", V, r"module must return scores of shape.*got shape \(2, "
    ),
    "a row less": Row("a row less", V, r"module must return scores of shape.*got shape \(1, "),
    "a row less in training": Row(
        "a row less in training", V, r"module must return scores of shape \(40, .*training.*\(39, "
    ),
    "columns more in training": Row(
        "columns more in training", V, r"module must return scores of shape \(40, .*got shape \(40,"
    ),
    "NaN": Row("NaN", V, "Training diverged.*epoch 1"),
    "NaN in training": Row("NaN in training", V, "Training diverged.*epoch 1"),
    "an error": Row("an error", Failed, "on purpose"),
    "an error in training": Row("an error in training", Failed, "on purpose"),
}


@pytest.mark.parametrize("case", MODULES)
def test_modules(case):
    row = MODULES[case]
    params = {"module": Wrong, "net_params": {"module__what": row.passed}}
    for name in NETS:
        assert_refused(
            name, row, lambda clf, name=name: clf.set_params(**params).fit(X, labels(name))
        )


@pytest.mark.parametrize("what", ["its input in place", "a leading in-place layer"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_modules_that_work_in_place_leave_the_rows_alone(what, dtype):
    rows = X.astype(dtype)
    before = joblib.hash(rows)
    for name in ("TopKClassifier", "DeepTopPushClassifier", "FScoreClassifier"):
        for batch_size in (16, 40):
            clf = make(
                name,
                module=Wrong,
                net_params={"module__what": what},
                batch_size=batch_size,
                max_epochs=2,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clf.fit(rows, labels(name), X_val=rows, y_val=labels(name))
            expected = clf.decision_function(sparse.csr_array(rows))
            np.testing.assert_array_equal(clf.decision_function(rows), expected)
            clf.predict(rows)
            clf.score(rows, labels(name))
            assert joblib.hash(rows) == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch_size", [10, 40])
def test_a_learning_rate_far_too_large(dtype, batch_size):
    row = Row(
        None, V, r"Training diverged: .*epoch [12]\. Try to lower learning_rate \(now 1e\+30\)"
    )
    params = {"learning_rate": 1e30, "max_epochs": 2, "batch_size": batch_size, "dtype": dtype}
    for name in NETS:
        more = params | ({"min_positives": 2} if hasattr(make(name), "min_positives") else {})
        assert_refused(
            name, row, lambda clf, more=more, name=name: clf.set_params(**more).fit(X, labels(name))
        )


def test_what_else_may_make_a_training_diverge_is_named():
    for params, says in (
        ({"weight_decay": 1e30, "optimizer": "sgd"}, r"lower weight_decay \(now 1e\+30\)"),
        ({"score_scale": 1e-320}, r"set score_scale \(now .*e-3\d\d\) nearer to 1"),
        ({"score_scale": 1e-320, "n_members": 2}, r"set score_scale \(now .*e-3\d\d\) nearer"),
    ):
        with pytest.raises(ValueError, match=f"Training diverged.*{says}"):
            make("TopKClassifier", max_epochs=3, **params).fit(X, OF_FOUR)


ENDS = {
    "softmax": (nn.Softmax(1), True),
    "log-softmax": (nn.LogSoftmax(1), False),
    "sigmoid": (nn.Sigmoid(), False),
    "nothing": (nn.Identity(), False),
}


class OfProbabilities(nn.Module):
    def forward(self, scores, target):
        return -scores.gather(1, target[:, None]).mean()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("loss", ["smooth_topk", "cross_entropy", nn.CrossEntropyLoss()])
@pytest.mark.parametrize("n_members", [1, 2])
def test_a_network_that_ends_in_a_softmax_is_said(end, loss, n_members):
    last, is_said = ENDS[end]

    def module(n, m):
        return nn.Sequential(nn.Linear(n, m), last)

    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        params = {"loss": loss, "n_members": n_members, "max_epochs": 3}
        make("TopKClassifier", module=module, **params).fit(X, OF_FOUR)
    said = [each for each in record if "module returns what looks like prob" in str(each.message)]
    assert len(said) == is_said
    assert all(each.filename == __file__ for each in said)


def test_a_loss_of_probabilities_may_have_them():
    def module(n, m):
        return nn.Sequential(nn.Linear(n, m), nn.Softmax(1))

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "module returns")
        make("TopKClassifier", loss=OfProbabilities(), module=module).fit(X, OF_FOUR)


class WrongLoss(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, scores, target):
        return self.value(nn.functional.cross_entropy(scores, target))


class Unweighted(nn.Module):
    """A loss that knows no weights."""

    def forward(self, scores, target):
        return scores.mean()


LOSSES = {
    "None": Row(lambda loss: None, T, "loss must return a Tensor.*got NoneType from WrongLoss"),
    "a number": Row(lambda loss: 1.0, T, "loss must return a Tensor.*got float from WrongLoss"),
    "no gradient": Row(torch.detach, T, "loss must return a Tensor with a gradient; got one with"),
    "NaN": Row(lambda loss: loss * torch.nan, V, "Training diverged: the loss became nan in bat"),
    "infinity": Row(lambda loss: loss + torch.inf, V, "Training diverged: the loss became inf"),
    "an error": Row(fail, Failed, "on purpose"),
}


@pytest.mark.parametrize("case", LOSSES)
def test_losses(case):
    row = LOSSES[case]
    loss = WrongLoss(row.passed)
    assert_refused("TopKClassifier", row, lambda clf: clf.set_params(loss=loss).fit(X, OF_FOUR))


def test_weights_with_a_loss_that_takes_none():
    with pytest.raises(TypeError, match=r"sample_weight and class_weight need a loss.*Unweighted"):
        TopKClassifier(Unweighted(), k=2).fit(X, OF_FOUR, sample_weight=np.arange(40) + 1.0)


HOOKS = ("on_train_begin", "on_epoch_begin", "on_batch_begin", "on_grad_computed", "on_batch_end")


@pytest.mark.parametrize("hook", [*HOOKS, "on_epoch_end", "on_train_end"])
def test_callbacks_that_raise(hook):
    callback = type("Raising", (Callback,), {hook: fail})()
    for name in NETS:
        row = Row(None, Failed, "on purpose")
        assert_refused(
            name,
            row,
            lambda clf, name=name: clf.set_params(callbacks=[callback]).fit(X, labels(name)),
        )


class FailsLater(Callback):
    def on_epoch_begin(self, net, **kwargs):
        if len(net.history) > 2:
            raise Failed("on purpose")


@pytest.mark.parametrize("name", NETS)
def test_a_new_fit_that_breaks_off_is_no_fit(name):
    clf = make(name, callbacks=[FailsLater()], max_epochs=5)
    with pytest.raises(Failed):
        clf.fit(X, labels(name))
    with pytest.raises(NotFittedError):
        clf.predict(X)
    clf.set_params(callbacks=None, max_epochs=1)
    assert fit(clf, X, labels(name)).predict(X).shape == (40,)


SCORINGS = {
    "NaN": Row(lambda *_: np.nan, V, "scoring must return a finite number; got nan"),
    "a word": Row(lambda *_: "good", V, "scoring must return a finite number; got 'good'"),
    "None": Row(lambda *_: None, V, "scoring must return a finite number; got None"),
    "an array": Row(lambda *_: np.ones(2), V, "scoring must return a finite number; got array"),
    "an error": Row(fail, Failed, "on purpose"),
    "no scorer": Row(3, V, "scoring must be.*got 3"),
    "a metric": Row("top_k_accuracy_at", V, "scoring must be.*make_topk_scorer.*got 'top_k_acc"),
}


@pytest.mark.parametrize("case", SCORINGS)
def test_scores_of_validation_rows(case):
    row = SCORINGS[case]
    params = {"scoring": row.passed, "early_stopping": True}
    for name in NETS:
        assert_refused(
            name, row, lambda clf, name=name: clf.set_params(**params).fit(X, labels(name))
        )


# Of a stream: what the second piece brings, or a first one without its labels.
PIECES = {
    "a new label": Row({"y": OF_FOUR + 1}, V, r"y has labels \[4\]|y has labels \[2 3 4\]"),
    "labels of another kind": Row({"y": OF_FOUR.astype(str)}, (V, T), "y|label|dtype|kind"),
    "other classes": Row({"classes": [0, 1, 7]}, V, "classes must be those of the first|2 classes"),
    "one class announced": Row({"classes": [0]}, V, "classes must have at least 2|2 classes"),
    "NaN announced": Row({"classes": [0, np.nan]}, V, "classes.*NaN"),
    "classes in a table": Row({"classes": np.eye(2)}, V, "classes must hold"),
    "a column less": Row({"X": X[:, :2]}, V, "2 features"),
    "NaN": Row({"X": X * np.nan}, V, "NaN"),
    "no rows": Row({"X": X[:0], "y": OF_FOUR[:0]}, V, "0 sample"),
    "a label short": Row({"y": OF_FOUR[:-1] % 2}, V, "y has inconsistent length 39"),
    "weights too short": Row({"sample_weight": np.ones(3)}, V, r"sample_weight.*\(3,\)"),
    "weights negative": Row({"sample_weight": -np.ones(40)}, V, "sample_weight.*got -1"),
}


@pytest.mark.parametrize("case", PIECES)
def test_pieces_of_a_stream(case):
    row = PIECES[case]
    for name in NETS:
        piece = {"X": X, "y": labels(name)} | row.passed
        assert_refused(name, row, lambda clf, piece=piece: clf.partial_fit(**piece))


@pytest.mark.parametrize(
    ("name", "value"),
    [("class_weight", "balanced"), ("calibration", "sigmoid")],
)
def test_partial_fit_refuses_what_needs_all_data(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} needs all data at once"):
        TopKClassifier(k=2, **{name: value}).partial_fit(X, OF_FOUR)


def test_warm_start_with_other_classes():
    clf = make("TopKClassifier", warm_start=True).fit(X, OF_FOUR)
    with pytest.raises(ValueError, match=r"continues with the classes \[0 1 2 3\]; y has"):
        clf.fit(X[OF_FOUR < 3], OF_FOUR[OF_FOUR < 3])
    assert clf.predict(X).shape == (40,)


def test_nothing_to_hold_out():
    with pytest.raises(ValueError, match="every class has a single row: pass X_val and y_val"):
        TopKClassifier(k=2, early_stopping=True).fit(X[:4], OF_FOUR[:4])


def test_k_is_clipped_once_and_said():
    with pytest.warns(UserWarning, match=r"k=9 must be smaller.*\(4\): k_=3 is used") as record:
        clf = make("TopKClassifier", k=9).fit(X, OF_FOUR)
    assert len(record) == 1
    assert clf.k_ == 3
    assert clf.predict_topk(X).shape == (40, 3)


@pytest.mark.parametrize("name", ["TopPushKClassifier", "RecallAtKClassifier"])
def test_a_huge_k_of_rows_is_clipped_once_and_said(name):
    with pytest.warns(UserWarning, match=r"k=1000000000000 must be at most") as record:
        clf = make(name, k=10**12).fit(X, labels(name))
    assert len([each for each in record if "k=1" in str(each.message)]) == 1
    assert clf.k_ == (30 if name == "TopPushKClassifier" else 40)


def test_probabilities_that_mean_nothing_are_not_offered():
    clf = fit(make("TopKClassifier"), X, OF_FOUR)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        clf.predict_proba(X)
    assert "calibration='temperature'" in str(error.value)


class Convolution(nn.Module):
    def __init__(self, n_channels, n_outputs):
        super().__init__()
        self.layer = nn.Conv2d(n_channels, n_outputs, 3)

    def forward(self, x):
        return self.layer(x).mean((2, 3))


def test_images_of_another_shape():
    with pytest.raises(ValueError, match="module fails on rows of shape"):
        make("TopKClassifier", module=Convolution).fit(sparse.csr_array(X), OF_FOUR)
    images = np.zeros((8, 1, 6, 6), dtype=np.float32)
    clf = make("TopKClassifier", module=Convolution).fit(images, np.arange(8) % 4)
    with pytest.raises(ValueError, match=r"rows of shape \(1, 6, 6\), as in fit; got \(1, 5, 5\)"):
        clf.predict(images[..., :5, :5])


@pytest.mark.parametrize(
    ("shape", "is_said"),
    [
        ((8, 28, 28, 1), True),
        ((8, 32, 24, 3), True),
        ((8, 3, 32, 32), False),
        ((8, 1, 28, 28), False),
        ((8, 64, 1, 1), False),
        ((8, 3, 5, 4), False),
    ],
)
def test_images_with_channels_last_are_said(shape, is_said):
    def module(n_channels, n_outputs):
        return nn.Sequential(
            nn.Conv2d(n_channels, n_outputs, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        )

    images = np.random.default_rng(0).normal(size=shape)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        clf = make("TopKClassifier", module=module).fit(images, np.arange(8) % 4)
        clf.predict(images)
    said = [str(each.message) for each in record if "channels last" in str(each.message)]
    assert len(said) == is_said
    assert all(f"with {shape[1]} channels: pass X.transpose(0, 3, 1, 2)" in each for each in said)


def test_validation_labels_that_training_has_not_are_said():
    y_val = np.where(OF_FOUR == 3, 9, OF_FOUR)
    with pytest.warns(UserWarning, match=r"y_val has labels that y has not, \[9\]"):
        make("TopKClassifier").fit(X, OF_FOUR, X_val=X, y_val=y_val)


def test_inputs_are_not_changed():
    X_val, weight = X[:9].copy(), np.arange(40.0)
    before = joblib.hash((X, OF_FOUR, X_val, weight))
    TopKClassifier(k=2, max_epochs=2, calibration="sigmoid").fit(
        X, OF_FOUR, sample_weight=weight, X_val=X_val, y_val=OF_FOUR[:9]
    )
    assert joblib.hash((X, OF_FOUR, X_val, weight)) == before

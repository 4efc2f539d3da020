"""The compared methods, each with one thread. Other packages are imported when they are used."""

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import loguniform, randint, uniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterSampler, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    TopBoostClassifier,
    TopKClassifier,
)

from ._jobs import JOBS

USUAL = ("binary", "multiclass")
LABELS = ("multiclass", "wrong labels", "long tail")
MANY_CLASSES = 50
FEW_SPLITS = 3
# Held-out datasets of two classes with fewer than 1 000 test samples, so that 1 % are five to seven
# samples. Except for slow methods, they have MORE_SPLITS times the number of splits.
FEW_ROWS = ("fault", "InternetAds", "merck METAB", "yeast")
MORE_SPLITS = 4


# Settings for tuning LightGBM.
SPACE = {
    "learning_rate": loguniform(0.02, 0.3),
    "num_leaves": randint(4, 128),
    "min_child_samples": randint(2, 60),
    "subsample": uniform(0.5, 0.5),
    "colsample_bytree": uniform(0.4, 0.6),
    "reg_lambda": loguniform(1e-3, 30),
}


@dataclass(frozen=True)
class Method:
    """How an estimator is made.

    Parameters
    ----------
    make : callable
        Function of the number of classes and the seed that returns an estimator.
    kinds : tuple of str
        Kinds of datasets for the method.
    n_splits : int
        Number of splits.
    n_splits_many : int
        Number of splits of datasets with more than MANY_CLASSES classes; 0 excludes them.
    """

    make: object
    kinds: tuple = tuple(JOBS)
    n_splits: int = 10
    n_splits_many: int = 10

    def splits(self, table):
        """Return the splits of a dataset for this method."""
        if table.kind not in self.kinds:
            return range(0)
        if table.n_classes > MANY_CLASSES:
            return range(min(self.n_splits, self.n_splits_many))
        more = table.name in FEW_ROWS and self.n_splits > FEW_SPLITS
        return range(self.n_splits * (MORE_SPLITS if more else 1))


class TunedLightGBM(ClassifierMixin, BaseEstimator):
    """LightGBM with random search. The first try has the defaults. Each try stops early.

    A fifth of the samples selects by average precision (two classes) or log loss. The best
    settings are fitted to all samples. No try begins after `max_seconds`.
    """

    def __init__(self, n_tries=20, max_trees=20_000, max_seconds=300.0, random_state=0):
        self.n_tries = n_tries
        self.max_trees = max_trees
        self.max_seconds = max_seconds
        self.random_state = random_state

    def fit(self, X, y):
        import lightgbm

        start = time.process_time()
        classes, count = np.unique(y, return_counts=True)
        # Each class needs a sample in both parts.
        stratify = y if count.min() > 1 and len(classes) < 0.2 * len(y) else None
        parts = train_test_split(
            X, y, test_size=0.2, random_state=self.random_state, stratify=stratify
        )
        X_fit, X_val, y_fit, y_val = parts
        known = np.isin(y_val, y_fit)
        is_binary = len(classes) == 2
        rounds = min(1000, self.max_trees // (1 if is_binary else len(classes)))
        tries = [
            {},
            *ParameterSampler(SPACE, self.n_tries - 1, random_state=self.random_state),
        ]
        found = []
        for settings in tries:
            if found and time.process_time() - start > self.max_seconds:
                break
            model = lightgbm_of(
                self.random_state, n_estimators=rounds, subsample_freq=1, **settings
            )
            metric = "average_precision" if is_binary else "multi_logloss"
            model.fit(
                X_fit,
                y_fit,
                eval_set=[(X_val[known], y_val[known])],
                eval_metric=metric,
                callbacks=[lightgbm.early_stopping(30, first_metric_only=True, verbose=False)],
            )
            score = model.best_score_["valid_0"][metric] * (1 if is_binary else -1)
            found.append((score, model.best_iteration_, settings))
        _, best_rounds, settings = max(found, key=lambda each: each[0])
        self.n_tried_ = len(found)
        self.best_ = {"n_estimators": best_rounds, **settings}
        self.model_ = lightgbm_of(self.random_state, subsample_freq=1, **self.best_).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def lightgbm_of(seed, **settings):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=seed, verbosity=-1, **settings)


def catboost_of(seed):
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        thread_count=1, random_seed=seed, verbose=0, allow_writing_files=False
    )


def pytabkit_of(name, seed):
    import pytabkit

    return getattr(pytabkit, name)(random_state=seed, device="cpu", n_threads=1)


def scaled(estimator):
    return make_pipeline(StandardScaler(), estimator)


def last_step(estimator):
    """Return an estimator without the scaler of `scaled`."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def network(estimator, n_classes, seed, **settings):
    """Return a network of this package. k is limited by the number of classes."""
    if isinstance(estimator, TopKClassifier):
        settings["k"] = min(estimator.k, n_classes - 1)
    return scaled(estimator.set_params(random_state=seed, device="cpu", **settings))


def of_ranker(ranker, n_classes, seed):
    return network(clone(ranker), n_classes, seed)


def vote(n_classes, seed):
    """Return the mean probability of a network, boosting and a forest."""
    return VotingClassifier(
        [
            ("network", network(RecallAtFPRClassifier(fpr=0.01), n_classes, seed)),
            ("boosting", TopBoostClassifier(random_state=seed)),
            ("forest", ExtraTreesClassifier(random_state=seed)),
        ],
        voting="soft",
    )


# The ranker for each metric of two classes.
RANKERS = {
    "precision at 1 %": PatMatClassifier(tau=0.01),
    "precision at 100": RecallAtKClassifier(k=100),
    "recall at 1 % false positives": PatMatNPClassifier(tau=0.01),
    "positives above every negative": DeepTopPushClassifier(),
    "average precision": AUCClassifier(),
}
# Sorted by speed: the fastest methods run first.
METHODS = {
    "logistic regression": Method(
        lambda n, seed: scaled(LogisticRegression(max_iter=1000, random_state=seed))
    ),
    "LightGBM": Method(lambda n, seed: lightgbm_of(seed), n_splits_many=0),
    "k nearest neighbours": Method(lambda n, seed: scaled(KNeighborsClassifier())),
    "SVC": Method(lambda n, seed: scaled(SVC(random_state=seed))),
    "logistic regression, balanced": Method(
        lambda n, seed: scaled(LogisticRegression(max_iter=1000, class_weight="balanced")),
        kinds=("long tail",),
    ),
    "SVC, balanced": Method(
        lambda n, seed: scaled(SVC(random_state=seed, class_weight="balanced")),
        kinds=("long tail",),
    ),
    "extra trees": Method(lambda n, seed: ExtraTreesClassifier(random_state=seed)),
    "MLPClassifier": Method(lambda n, seed: scaled(MLPClassifier(random_state=seed))),
    "LightGBM, balanced": Method(
        lambda n, seed: lightgbm_of(seed).set_params(class_weight="balanced"),
        kinds=("long tail",),
        n_splits=FEW_SPLITS,
    ),
    "TopBoostClassifier": Method(
        lambda n, seed: TopBoostClassifier(random_state=seed), kinds=("binary",)
    ),
    "histogram boosting": Method(
        lambda n, seed: HistGradientBoostingClassifier(random_state=seed),
        kinds=USUAL,
        n_splits_many=0,
    ),
    "random forest": Method(lambda n, seed: RandomForestClassifier(random_state=seed, n_jobs=1)),
    "TopKClassifier": Method(lambda n, seed: network(TopKClassifier(), n, seed), kinds=LABELS),
    "TopKClassifier, adjusted": Method(
        lambda n, seed: network(TopKClassifier("smooth_topk_adjusted"), n, seed),
        kinds=("long tail",),
    ),
    **{
        type(ranker).__name__: Method(partial(of_ranker, ranker), kinds=("binary",))
        for ranker in (*RANKERS.values(), RecallAtFPRClassifier(fpr=0.01))
    },
    "vote of three": Method(vote, kinds=("binary",)),
    "CatBoost": Method(
        lambda n, seed: catboost_of(seed), USUAL, n_splits=FEW_SPLITS, n_splits_many=0
    ),
    "RealMLP-TD": Method(
        lambda n, seed: pytabkit_of("RealMLP_TD_Classifier", seed), USUAL, n_splits=FEW_SPLITS
    ),
    "TabM": Method(
        lambda n, seed: pytabkit_of("TabM_D_Classifier", seed), USUAL, n_splits=FEW_SPLITS
    ),
    "LightGBM, tuned": Method(
        lambda n, seed: TunedLightGBM(random_state=seed),
        kinds=USUAL,
        n_splits=FEW_SPLITS,
        n_splits_many=0,
    ),
}
# The estimator of this package for each kind of datasets. On the choosing half
# RecallAtFPRClassifier was the best of the rankers by average precision and by recall at 1 % false
# positives.
DEFAULTS = {
    "binary": "RecallAtFPRClassifier",
    "multiclass": "TopKClassifier",
    "wrong labels": "TopKClassifier",
    "long tail": "TopKClassifier, adjusted",
}
OURS = "sktopk"


def shown(kind):
    """Return the name on the page of each method for this kind of datasets.

    The ranks have one ranker only, the default of the kind.
    """
    rankers = {type(ranker).__name__ for ranker in RANKERS.values()}
    others = {
        name: name
        for name, method in METHODS.items()
        if name not in rankers and kind in method.kinds
    }
    return others | {DEFAULTS[kind]: OURS}

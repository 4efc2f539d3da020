"""Images and texts of noise_level.py: loaded once by each process, as a module of its own is."""

from functools import cache

import numpy as np
from _image_files import load_cifar100
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk.datasets import load_clinc150, load_trec

TEXTS = {
    "clinc150": lambda subset: load_clinc150(subset, version="imbalanced", return_X_y=True),
    "trec": lambda subset: load_trec(subset, return_X_y=True),
}


@cache
def cifar100(side):
    """Images to train on and to test, their classes, and the coarse class of each class.

    Of 32 x 32 pixels, or the means of 2 x 2 of them; each channel standardised.
    """
    parts = [load_cifar100(subset) for subset in ("train", "test")]
    mean, spread = (f(parts[0].data, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    images = []
    for part in parts:
        X = (part.data - mean) / spread
        if side == 16:
            X = X.reshape(len(X), 3, 16, 2, 16, 2).mean((3, 5))
        images += [np.ascontiguousarray(X), part.target]
    return *images, parts[0].groups


@cache
def texts(data):
    """200 components of tf-idf of words and pairs, and classes, to train on and to test."""
    (train, y), (test, y_test) = (TEXTS[data](subset) for subset in ("train", "test"))
    prepare = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        TruncatedSVD(200, random_state=0),
        StandardScaler(),
    )
    X, X_test = prepare.fit_transform(train), prepare.transform(test)
    return X.astype(np.float32), y, X_test.astype(np.float32), y_test

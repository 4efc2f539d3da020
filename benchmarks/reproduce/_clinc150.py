"""The requests of clinc150 as numerical features."""

import functools
import sys
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.append(str(Path(__file__).parents[1]))
from _datasets import load_clinc150


@functools.cache
def clinc150():
    """Return training, validation and test set of 200 components, and domains of intents."""
    bunches = [load_clinc150(subset) for subset in ("train", "val", "test")]
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    steps = make_pipeline(words, TruncatedSVD(200, random_state=0), StandardScaler())
    steps.fit(bunches[0].data)
    parts = [(steps.transform(b.data).astype(np.float32), b.target) for b in bunches]
    return parts, bunches[0].groups

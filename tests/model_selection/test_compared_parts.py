"""Digests of questions."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import accuracy_score, make_scorer

from sktopk import TopKClassifier
from sktopk._common._fingerprints import digest
from sktopk.metrics import make_topk_scorer


def test_digests_tell_values_apart_and_are_the_same_elsewhere():
    values = [None, True, 1, 1.0, "1", [1], [[1]], {"a": 1}, {"a": 2}, np.array([1]),
              np.array([1.0]), np.array([[1.0]]), csr_array([[1.0]]), pd.DataFrame({"a": [1.0]}),
              pd.DataFrame({"b": [1.0]}), ["ab", "c"], ["a", "bc"], TopKClassifier(),
              TopKClassifier(tau=2.0), lambda x: x + 1, lambda x: x + 2, accuracy_score,
              make_scorer(accuracy_score), make_topk_scorer(1), make_topk_scorer(2)]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    code = (
        "import numpy as np; from sktopk import TopKClassifier\n"
        "from sktopk._common._fingerprints import digest\n"
        "print(digest([TopKClassifier(net_params={'b': 1, 'a': {3, 'x'}}), np.arange(3.0)]))"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    ).stdout.strip()
    here = [TopKClassifier(net_params={"a": {"x", 3}, "b": 1}), np.arange(3.0)]
    assert elsewhere == digest(here)
    with pytest.raises(TypeError, match="told apart"):
        digest(iter([1]))

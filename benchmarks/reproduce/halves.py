"""Paper 004: two equal halves, most of one removed; losses that are linear programs, or not.

Of paper 004 (Meng et al. 2021) only abstract and introduction are at hand, so that the protocol is
that of the literature that it names: the ten classes of Fashion-MNIST are two halves, 0 to 4 and
5 to 9; of the second, which is positive, 60, 80, 90 or 98 % of the training rows are removed.
Validation and test rows keep their halves. A linear model and one of two convolutions, on images
of 14 x 14 pixels; the rate is chosen on validation rows by the metric, and so is the threshold of
F1 for all methods alike.

    python benchmarks/reproduce/halves.py
    python benchmarks/reproduce/halves.py --small        # a minute, to see it run
"""

import functools

import numpy as np
from _image_files import load_fashion_mnist
from _networks import ConvNet
from _paired import RULE, Finding, gain
from _protocol import arguments, markdown, mean_and_half, run_missing, seeds_of, write_page
from sklearn.base import clone
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from torch import nn

from sktopk import AUCClassifier, FScoreClassifier, TopKClassifier
from sktopk._estimators.boosted._top_boost import cuts  # noqa: F401

"""One classifier of each kind that ranks samples."""

import sktopk
from sktopk.losses import TopMean

TOP = [
    sktopk.DeepTopPushClassifier(),
    sktopk.TopPushKClassifier(k=7),
    sktopk.RecallAtKClassifier(k=30),
    sktopk.PatMatClassifier(tau=0.07),
    sktopk.PatMatNPClassifier(tau=0.03),
    sktopk.RecallAtFPRClassifier(fpr=0.07),
    sktopk.PrecisionAtRecallClassifier(recall=0.8),
]
PROGRAMS = [
    sktopk.AUCClassifier(),
    sktopk.FScoreClassifier(beta=2.0),
    sktopk.RecallAtPrecisionClassifier(0.4),
]
RANKERS = [*TOP, *PROGRAMS, sktopk.ThresholdClassifier(TopMean("negatives", k=3))]


def name(clf):
    return type(clf).__name__.removesuffix("Classifier")

"""Train one network in several processes, each on its share of the samples.

Start this script with one of these commands:

    accelerate launch --num_processes 2 examples/scale/several_processes.py
    torchrun --standalone --nproc_per_node 2 examples/scale/several_processes.py

The first command gives each process a GPU. The second command also works on a CPU.
"""

import torch
from accelerate import PartialState
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import make_topk_scorer

top_3 = make_topk_scorer(3)
# PartialState opens the process group. From here on, all processes fit one model together.
state = PartialState(cpu=not torch.cuda.is_available())

X, y = load_digits(return_X_y=True)
X = StandardScaler().fit_transform(X)
train, test = slice(0, 1200), slice(1200, None)
mine = slice(state.process_index, 1200, state.num_processes)

clf = TopKClassifier(k=3, random_state=0).fit(X[train][mine], y[train][mine])
state.print(f"{state.num_processes} processes, top-3 accuracy {top_3(clf, X[test], y[test]):.3f}")

ranker = DeepTopPushClassifier(random_state=0)
ranker.fit(X[train][mine], y[train][mine] == 8)
state.print(f"share of eights above every other digit: {ranker.score(X[test], y[test] == 8):.3f}")

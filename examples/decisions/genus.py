"""
A genus where the species is in doubt
=====================================

A photograph does not always tell the species, but often the genus. With a taxonomy, a set of labels
becomes a single name at the level that the photograph allows, and the right species is below it
nine times out of ten, as was asked. Cutting sets to one label promises nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import SetClassifier

# %%
# A flora
# -------
# Twenty-four species in eight genera and three families. Species of a genus are close together in
# the six measurements that there are of a leaf; those of a family are not far from each other.

GENERA = {
    "Fagaceae": ["Quercus", "Fagus", "Castanea"],
    "Betulaceae": ["Betula", "Alnus", "Carpinus"],
    "Sapindaceae": ["Acer", "Aesculus"],
}
flora = pd.DataFrame(
    [
        (f"{genus} {species}", genus, family, "Plantae")
        for family, genera in GENERA.items()
        for genus in genera
        for species in ("alba", "nigra", "rubra")
    ],
    columns=["species", "genus", "family", "kingdom"],
)
rng = np.random.default_rng(0)
place = np.zeros((len(flora), 6))
for level, spread in {"family": 2.0, "genus": 1.5, "species": 0.8}.items():
    codes, names = pd.factorize(flora[level])
    place += spread * rng.normal(size=(len(names), 6))[codes]


def leaves(n, noise):
    code = rng.integers(len(flora), size=n)
    return place[code] + noise * rng.normal(size=(n, 6)), flora.species.to_numpy()[code]


X, y = leaves(4000, 1.0)
# Photographs in the field are of three kinds: sharp, usual and blurred.
tests = {name: leaves(2000, noise) for name, noise in [("sharp", 0.5), ("usual", 1.0)]}
tests["blurred"] = leaves(2000, 1.6)

# %%
# One name per leaf
# -----------------
# The frame is the taxonomy as botanists have it, a column per rank. ``max_size=1`` asks for one
# name, ``output="nodes"`` for names of nodes.

model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
sets = SetClassifier(
    model, method="lac", coverage=0.9, hierarchy=flora, max_size=1, empty="top1", random_state=0
).fit(X, y)
X_usual, y_usual = tests["usual"]
names = np.concatenate(sets.predict_set(X_usual, output="nodes"))
print(pd.DataFrame({"answer": names[:8], "species": y_usual[:8]}).to_string(index=False))

# %%
# How often is the species below the name? As often as was promised: of the usual photographs,
# which are like those that calibrate. Sets that are cut to one label are right as often as the
# classifier.

covered = sets.predict_set(X_usual).toarray()[
    np.arange(len(y_usual)), np.searchsorted(sets.classes_, y_usual)
]
cut = SetClassifier(model, method="lac", coverage=0.9, max_size=1, random_state=0).fit(X, y)
cut_covered = cut.predict_set(X_usual).toarray()[
    np.arange(len(y_usual)), np.searchsorted(cut.classes_, y_usual)
]
print(f"one name of the taxonomy: {covered.mean():.2f}, one species: {cut_covered.mean():.2f}")

# %%
# At which rank?
# --------------
# Of sharp photographs four in five get a species; the less sharp they are, the more get a family
# or the whole kingdom. (What is promised about blurred ones, calibration rows of their own would
# have to say.) Two names instead of one, such as "Quercus or Fagus", leave nearly all at species.

ranks = {name: rank for rank in flora for name in flora[rank]}
order = list(flora)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, size in zip(axes, (1, 2), strict=True):
    clf = sets.set_params(max_size=size).fit(X, y)
    shares = pd.DataFrame(
        {
            kind: pd.Series(
                [
                    max((ranks[name] for name in nodes), key=order.index)
                    for nodes in clf.predict_set(X_test, output="nodes")
                ]
            ).value_counts(normalize=True)
            for kind, (X_test, _) in tests.items()
        },
        index=order,
    ).fillna(0)
    left = np.zeros(len(tests))
    for rank, color in zip(order, ["#1b7837", "#7fbf7b", "#d9c77e", "#8c510a"], strict=True):
        ax.barh(list(tests), shares.loc[rank], left=left, color=color, label=rank)
        left += shares.loc[rank].to_numpy()
    ax.set(
        title=f"at most {size} name{'s' * (size > 1)}",
        xlabel="Share of the photographs",
        xlim=(0, 1),
    )
axes[0].invert_yaxis()
axes[0].set_ylabel("Photograph")
figure.legend(
    *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False,
    title="Highest rank in the answer",
)  # fmt: skip
plt.show()

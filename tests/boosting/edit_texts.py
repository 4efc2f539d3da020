"""Edit the text of boosters at random, and use what can be loaded; run by test_model_text.py.

python -m tests.boosting.edit_texts seed n_edits

Prints how many edits were loaded and how many raised ValueError. Any other error ends the process.
"""

import sys

import lightgbm
import numpy as np

from sktopk import TopBoostClassifier

NUMBERS = ["-1", "0", "1", "7", "-9", "99999", "2147483647", "-2147483648", "4294967296", "1e300"]
NUMBERS += ["1e999", "nan", "inf", "-inf", "", "a", "0.5", "1" * 400, "1 2", "\0", "=", "\n", "é"]


def text_with_categories(X, y):
    """Return the text of a booster that splits a column of categories, too."""
    data = lightgbm.Dataset(X, y, categorical_feature=[0], params={"verbosity": -1})
    settings = {"objective": "none", "verbosity": -1, "min_child_samples": 3}
    booster = lightgbm.Booster(settings, data)
    for _ in range(3):
        booster.update(fobj=lambda scores, _: (scores - y, np.ones(len(y))))
    return booster.model_to_string()


def edited(text, rng):
    """Return the text with one to three random edits of its lines, words and characters."""
    for _ in range(rng.integers(1, 4)):
        lines = text.split("\n")
        i, j = rng.integers(0, len(lines), 2)
        kind = rng.integers(0, 8)
        if kind == 0:
            del lines[i]
        elif kind == 1:
            lines.insert(j, lines[i])
        elif kind == 2:
            lines[i], lines[j] = lines[j], lines[i]
        elif kind == 3:
            at = rng.integers(0, len(text))
            lines = (text[:at] + chr(rng.integers(0, 256)) + text[at + 1 :]).split("\n")
        elif kind == 4:
            lines = text[: rng.integers(0, len(text))].split("\n")
        else:
            name, mark, values = lines[i].partition("=")
            words = values.split(" ")
            words[rng.integers(0, len(words))] = str(rng.choice(NUMBERS))
            if kind == 7:
                words = words[: rng.integers(0, len(words) + 1)]
            lines[i] = name + mark + " ".join(words)
        text = "\n".join(lines)
    return text


def main(seed, n_edits):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 4))
    X[:, 0] = rng.integers(0, 30, 200)
    X[::7, 1] = np.nan
    y = (X[:, 0] % 3 == 0).astype(int)
    params = {"n_estimators": 3, "n_members": 1, "min_child_samples": 5, "random_state": 0}
    state = TopBoostClassifier(**params).fit(X, y).__getstate__()
    texts = [*state["boosters_"], text_with_categories(X, y)]
    n_loaded = 0
    for i in range(n_edits):
        text = edited(texts[i % 2], rng)
        clf = TopBoostClassifier()
        try:
            clf.__setstate__(state | {"boosters_": [text]})
        except ValueError:
            continue
        n_loaded += 1
        assert clf.decision_function(X).shape == y.shape
        clf.boosters_[0].predict(X, pred_contrib=True)
        clf.boosters_[0].dump_model()
        clf.__getstate__()
    print(n_loaded, n_edits - n_loaded)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

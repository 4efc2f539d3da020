"""The folders of the package, and the imports between them, read from the source."""

import ast
from pathlib import Path

import matplotlib.pyplot as plt

import sktopk

ROOT = Path(sktopk.__file__).parent
PLACES = {
    "io": (1.2, 5.0),
    "model_selection": (4.4, 5.0),
    "estimators": (2.8, 3.4),
    "datasets": (7.4, 3.4),
    "losses": (0.6, 1.6),
    "modules": (2.6, 1.6),
    "samplers": (4.4, 1.6),
    "metrics": (6.4, 1.6),
}
OUTSIDE = {
    "torch": (1.6, 0.0),
    "skorch": (3.4, 0.0),
    "numpy, scipy,\nscikit-learn": (5.8, 0.0),
    "matplotlib": (8.0, 0.0),
}
LABELS = {"estimators": "estimators\n_*.py", "metrics": "metrics\nand metrics/_plot"}
NUMERIC = "numpy, scipy,\nscikit-learn"
GROUP = {"torch": "torch", "skorch": "skorch", "matplotlib": "matplotlib"}
GROUP |= dict.fromkeys(("numpy", "scipy", "sklearn"), NUMERIC)


def part_of(path):
    """Return the name of the box a file of the package belongs to."""
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return first if first in PLACES else "estimators"


def imports():
    """Yield (box of the importing file, box of what it imports)."""
    for path in ROOT.rglob("*.py"):
        if path == ROOT / "__init__.py":
            continue
        package = ["sktopk", *path.relative_to(ROOT).parts[:-1]]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) + 1 - node.level] if node.level else []
                stem = ".".join([*base, node.module] if node.module else base)
                names = [f"{stem}.{a.name}" for a in node.names] if stem == "sktopk" else [stem]
            else:
                continue
            for name in names:
                top, *rest = name.split(".")
                if top == "sktopk" and rest and rest[0] != "__version__":
                    yield part_of(path), rest[0] if rest[0] in PLACES else "estimators"
                elif top in GROUP:
                    yield part_of(path), GROUP[top]


figure, ax = plt.subplots(figsize=(9.5, 6))
ax.set(xlim=(-0.6, 9), ylim=(-0.5, 5.5))
ax.axis("off")
places = PLACES | OUTSIDE
for start, end in sorted(set(imports())):
    if start == end:
        continue
    color = "0.75" if end in OUTSIDE else "#00589c"
    ax.annotate(
        "",
        places[end],
        places[start],
        arrowprops={"arrowstyle": "-|>", "color": color, "shrinkA": 20, "shrinkB": 24},
        zorder=1,
    )
for name, (x, y) in places.items():
    inside = name in PLACES
    style = {
        "boxstyle": "round,pad=0.5",
        "facecolor": "#e8f1f8" if inside else "w",
        "edgecolor": "#00589c" if inside else "0.6",
    }
    ax.text(x, y, LABELS.get(name, name), ha="center", va="center", bbox=style, zorder=3)

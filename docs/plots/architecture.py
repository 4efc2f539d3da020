"""The parts of the package, and the imports between them, read from the source."""

import ast
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt

import sktopk

ROOT = Path(sktopk.__file__).parent
PLACES = {
    "io": (1.7, 6.4),
    "model_selection": (5.6, 6.4),
    "callbacks": (9.6, 5.0),
    "_estimators": (1.7, 5.0),
    "_persistence": (5.2, 4.4),
    "_training": (7.6, 3.3),
    "boosting": (2.4, 3.4),
    "metrics": (1.2, 1.9),
    "losses": (4.0, 1.9),
    "modules": (5.9, 1.9),
    "samplers": (7.6, 1.9),
    "datasets": (9.7, 1.9),
    "_common": (5.0, 0.2),
}
FILES = {
    "_estimators": "topk, ranking, programs, boosted, decisions",
    "_persistence": "checkpoints, state of a net",
    "_training": "net, minibatches, objectives",
    "_common": "input, files, warnings, extras",
}
OUTSIDE = ("torch", "skorch", "numpy", "scipy", "sklearn", "pandas", "matplotlib")


def imports():
    """Yield (part that imports, what it imports: a part or a package from outside)."""
    for path in ROOT.rglob("*.py"):
        if path == ROOT / "__init__.py":
            continue
        folders = path.relative_to(ROOT).parts
        package = ["sktopk", *folders[:-1]]
        start = folders[0].removesuffix(".py")
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
                    yield start, rest[0]
                elif top in OUTSIDE:
                    yield start, top


found = defaultdict(set)
for start, end in imports():
    if start != end:
        found[start].add(end)


def reached(start):
    """Return what lies behind the imports of a part."""
    return {far for end in found[start] & PLACES.keys() for far in found[end] | reached(end)}


figure, ax = plt.subplots(figsize=(11, 6))
ax.set(xlim=(-0.3, 10.7), ylim=(-0.4, 6.8))
ax.axis("off")
style = {"boxstyle": "round,pad=0.6", "facecolor": "#e8f1f8", "edgecolor": "#00589c"}
boxes = {}
for name, (x, y) in PLACES.items():
    packages = ", ".join(each for each in OUTSIDE if each in found[name])
    lines = [f"$\\bf{{{name}}}$".replace("_", r"\_"), FILES.get(name), packages]
    text = "\n".join(line for line in lines if line)
    written = ax.text(x, y, text, ha="center", va="center", fontsize=8.5, bbox=style)
    boxes[name] = written.get_bbox_patch()
figure.canvas.draw()  # Boxes have their sizes from now on.
for start in PLACES:
    for end in (found[start] & PLACES.keys()) - reached(start):
        ends = {"patchA": boxes[start], "patchB": boxes[end]}
        arrow = {"arrowstyle": "-|>", "color": "#00589c", "shrinkA": 0, "shrinkB": 2}
        ax.annotate("", PLACES[end], PLACES[start], arrowprops=arrow | ends)

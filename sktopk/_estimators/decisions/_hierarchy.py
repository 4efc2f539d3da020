"""A taxonomy of the classes: sets of labels that a few of its nodes describe."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real

import numpy as np
import pandas as pd

from ._conformal import chunks


@dataclass(frozen=True)
class Hierarchy:
    """A tree with the classes as leaves, whose inner nodes have several children each.

    Nodes are counted from the classes, in their order, to the root, each before its parent.

    Parameters
    ----------
    names : ndarray of shape (n_inner,)
        Names of the inner nodes, all texts or all numbers.
    parent : ndarray of shape (n_classes + n_inner,)
        Number of each node's parent; of the root its own.
    """

    names: np.ndarray
    parent: np.ndarray

    @cached_property
    def _layout(self):
        """Classes in an order in which those below a node are neighbours, and where they begin.

        Those below inner node i are ``order[start[i]:stop[i]]``.
        """
        n_nodes, n_classes = len(self.parent), len(self.parent) - len(self.names)
        size = (np.arange(n_nodes) < n_classes).astype(np.intp)
        for node in range(n_nodes - 1):
            size[self.parent[node]] += size[node]
        start, free = np.zeros((2, n_nodes), dtype=np.intp)
        for node in reversed(range(n_nodes - 1)):
            above = self.parent[node]
            start[node] = free[node] = free[above]
            free[above] += size[node]
        return np.argsort(start[:n_classes]), start[n_classes:], (start + size)[n_classes:]

    def nodes(self, classes):
        """Return the names of all nodes, `classes` first."""
        if classes.dtype.kind == self.names.dtype.kind:
            return np.concatenate([classes, self.names])
        return np.array([*classes.tolist(), *self.names.tolist()], dtype=object)

    def entry(self, conformity, proba, max_size):
        """Return the conformity at which each label enters, if a set is at most so many nodes.

        Labels enter one by one, the best first. Where that takes more than `max_size` nodes, a
        common ancestor of several of them takes their place: the one that adds the fewest labels,
        of these the one that adds most probability. They enter at the conformity of the label
        that made it necessary. Whatever the threshold, the set of a row is thus one of a growing
        sequence, and each of these is a union of at most `max_size` nodes.
        """
        order, start, stop = self._layout
        first = np.append(np.arange(len(order)), order[start])
        place = np.argsort(order)
        inside, entered = np.zeros(conformity.shape, dtype=bool), conformity.copy()
        for n_before, label in enumerate(np.argsort(-conformity, axis=1, kind="stable").T):
            rows = np.flatnonzero(~inside[np.arange(len(label)), label])
            inside[rows, label[rows]] = True
            if n_before < max_size or not len(rows):
                continue
            row, node = np.nonzero(self._largest(inside[rows]))
            # One label stands for each of the nodes that describe the set.
            described = np.zeros((len(rows), len(order)), dtype=bool)
            described[row, first[node]] = True
            many = described.sum(axis=1) > max_size
            rows, described = rows[many], described[many]
            outside = ~inside[rows]
            n_added = np.where(self._below(described) > 1, self._below(outside), len(order))
            fewest = n_added == n_added.min(axis=1, keepdims=True)
            gain = self._below(np.where(outside, proba[rows], 0.0))
            node = np.where(fewest, gain, -np.inf).argmax(axis=1)[:, None]
            added = outside & (place >= start[node]) & (place < stop[node])
            trigger = conformity[rows, label[rows]][:, None]
            entered[rows] = np.where(added, trigger, entered[rows])
            inside[rows] |= added
        return entered

    def describe(self, columns, start):
        """Return the fewest nodes that describe sets of labels, row after row as those are given.

        `columns` are the labels of the sets and `start` where those of each row begin. A node
        comes where the first of its labels was.
        """
        n_samples, n_nodes = len(start) - 1, len(self.parent)
        n_classes = n_nodes - len(self.names)
        nodes, sizes = [np.zeros(0, np.intp)], [[0]]
        for rows in chunks(n_samples, n_nodes):
            begin = start[rows.start : rows.stop + 1]
            node = columns[begin[0] : begin[-1]]
            row = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
            inside = np.zeros((len(begin) - 1, n_classes), dtype=bool)
            inside[row, node] = True
            full = self._full(inside)
            while (rises := full[row, self.parent[node]] & (self.parent[node] > node)).any():
                node = np.where(rises, self.parent[node], node)
            _, index = np.unique(row * n_nodes + node, return_index=True)
            index.sort()
            nodes.append(node[index])
            sizes.append(np.bincount(row[index], minlength=len(begin) - 1))
        return np.concatenate(nodes), np.concatenate(sizes).cumsum()

    def _below(self, values):
        """Return the sum of the values, one per class, below each inner node."""
        order, start, stop = self._layout
        total = np.zeros((len(values), len(order) + 1), np.result_type(values, np.intp))
        np.cumsum(values[:, order], axis=1, out=total[:, 1:])
        return total[:, stop] - total[:, start]

    def _full(self, inside):
        """Return whether all labels below each node, a class or not, are inside."""
        return np.hstack([inside, self._below(~inside) == 0])

    def _largest(self, inside):
        """Return whether each node is full and its parent is not; of the root nothing is said."""
        full = self._full(inside)
        return full & ~full[:, self.parent]


def read_parents(hierarchy):
    """Return the parent of every child, as a dict; raise unless each has one."""
    table, parents = _table(hierarchy), {}
    for row in table:
        for child, parent in pairwise(row):
            if child != parent and parents.setdefault(child, parent) != parent:
                raise ValueError(
                    f"hierarchy must give each child one parent; got {parents[child]!r} and "
                    f"{parent!r} for {child!r}"
                )
    return parents


def read_hierarchy(hierarchy, classes):
    """Return the part of the tree above the classes, without nodes that have a single child."""
    parents, names, classes = read_parents(hierarchy), classes[:0], classes.tolist()
    if missing := [label for label in classes if label not in parents]:
        alike = [child for child in parents if str(child) == str(missing[0])]
        hint = f", but for {alike[0]!r}, which is of another kind" if alike else ""
        raise ValueError(
            f"hierarchy must have a parent for every class; got none for {_shown(missing)}{hint}"
        )
    lineages = [_lineage(parents, label) for label in classes]
    roots = list(dict.fromkeys(lineage[-1] for lineage in lineages))
    if len(roots) > 1:
        raise ValueError(f"hierarchy must have one root above all classes; got {_shown(roots)}")
    children, depth = {}, {}
    for lineage in lineages:
        for distance, node in enumerate(reversed(lineage)):
            depth[node] = distance
        for child, parent in pairwise(lineage):
            children.setdefault(parent, {})[child] = None
    if inner := [label for label in classes if label in children]:
        raise ValueError(
            f"hierarchy must have the classes as leaves; got {inner[0]!r} as a parent of "
            f"{_shown(list(children[inner[0]]))}. Call the class otherwise, and put it below"
        )
    kept = [node for node in depth if len(children.get(node, ())) > 1]
    kept.sort(key=lambda node: -depth[node])
    number = {node: i for i, node in enumerate([*classes, *kept])}
    parent = np.arange(len(number))
    for lineage in lineages:
        known = [number[node] for node in lineage if node in number]
        parent[known[:-1]] = known[1:]
    names = np.array(kept) if kept else names
    if kept and (len({isinstance(name, str) for name in kept}) > 1 or names.dtype.kind == "O"):
        raise ValueError(
            "hierarchy must name its inner nodes all by texts or all by numbers; got "
            f"{_shown(kept)}"
        )
    return Hierarchy(names, parent)


def _table(hierarchy):
    """Return rows of nodes, each from a child to its ancestors, without those that are missing."""
    if isinstance(hierarchy, Mapping | pd.Series):
        rows = [list(pair) for pair in hierarchy.items()]
    elif hasattr(hierarchy, "columns") and len(np.shape(hierarchy)) == 2:
        rows = np.asarray(hierarchy, dtype=object).tolist()
        if len(hierarchy.columns) < 2:
            raise ValueError(
                "hierarchy must have a column of children and one of parents at least; got "
                f"{list(hierarchy.columns)}"
            )
    else:
        raise TypeError(
            "hierarchy must be a mapping of child to parent, or a frame whose rows lead from a "
            f"child to its ancestors; got {hierarchy!r:.80}"
        )
    nodes = [[each.item() if isinstance(each, np.generic) else each for each in r] for r in rows]
    refused = [each for row in nodes for each in row if not _is_node(each)]
    if refused:
        raise TypeError(f"hierarchy must have texts or numbers as nodes; got {refused[0]!r:.80}")
    return [[each for each in row if not _is_missing(each)] for row in nodes]


def _is_missing(value):
    return pd.isna(value) is True


def _is_node(value):
    return _is_missing(value) or isinstance(value, str | Real)


def _lineage(parents, label):
    """Return a class and its ancestors, the root last."""
    lineage = [label]
    while (above := parents.get(lineage[-1])) is not None:
        if above in lineage:
            circle = [*lineage[lineage.index(above) :], above]
            raise ValueError(f"hierarchy must have no circle; got {_shown(circle, ' below ')}")
        lineage.append(above)
    return lineage


def _shown(nodes, between=", "):
    """At most six nodes in words."""
    return between.join(map(repr, nodes[:6])) + (", ..." if len(nodes) > 6 else "")

"""Ensembles of decision trees (ai.onnx.ml)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ModelError
from ..registry import operator
from ..values import Array, Host, Value
from .traditional import ML, labelled, transformed

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass
class Forest:
    """Trees as arrays over their inner nodes.

    Attributes:
        roots: the first node of each tree; a negative one is leaf `-1 - root`.
        features, splits, modes, nan_true: what each node compares.
        members: the set of a node that asks for membership.
        yes, no: the next nodes; a negative one is a leaf.
    """

    roots: np.ndarray
    features: np.ndarray
    splits: np.ndarray
    modes: np.ndarray
    nan_true: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    members: dict[int, np.ndarray]

    def leaves(self, x: np.ndarray) -> np.ndarray:
        """The leaf of each row in each tree: [rows, trees]."""
        at = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        rows = np.arange(len(x))[:, None]
        for _ in range(len(self.features) + 1):
            inside = at >= 0
            if not inside.any():
                return -1 - at
            node = np.where(inside, at, 0)
            value = x[rows, self.features[node]]
            truth = self._holds(node, value)
            at = np.where(inside, np.where(truth, self.yes[node], self.no[node]), at)
        raise ModelError("a tree runs in a circle")

    def _holds(self, node: np.ndarray, value: np.ndarray) -> Array:
        split, mode = self.splits[node], self.modes[node]
        found = np.select(
            [mode == k for k in range(6)],
            [value <= split, value < split, value >= split, value > split, value == split,
             value != split],
        ).astype(bool)  # fmt: skip
        for k, members in self.members.items():
            found = np.where(node == k, np.isin(value, members), found)
        return np.where(np.isnan(value), self.nan_true[node] != 0, found)


def _scores(
    leaves: np.ndarray, weights: list[list[tuple[int, float]]], targets: int, how: str
) -> np.ndarray:
    """The weights of the leaves that were reached, put together for each target."""
    start = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    total = np.full((len(leaves), targets), start)
    for row, reached in zip(total, leaves.tolist(), strict=True):
        for leaf in reached:
            for target, weight in weights[leaf]:
                if how == "MIN":
                    row[target] = min(row[target], weight)
                elif how == "MAX":
                    row[target] = max(row[target], weight)
                else:
                    row[target] += weight
    total[np.isinf(total)] = 0
    return total / leaves.shape[1] if how == "AVERAGE" else total


@operator("TreeEnsemble", 5, domain=ML)
def tree_ensemble(
    x: Host, *, aggregate_function: int = 1, leaf_targetids: list[int], leaf_weights: Host,
    membership_values: Host | None = None, n_targets: int = 1,
    nodes_falseleafs: list[int], nodes_falsenodeids: list[int], nodes_featureids: list[int],
    nodes_hitrates: Host | None = None, nodes_missing_value_tracks_true: list[int] | None = None,
    nodes_modes: Host, nodes_splits: Host, nodes_trueleafs: list[int],
    nodes_truenodeids: list[int], post_transform: int = 0, tree_roots: list[int],
) -> Host:  # fmt: skip
    """The sum, mean or extreme of what the leaves of all trees say."""
    count = len(nodes_featureids)
    yes = np.where(
        np.asarray(nodes_trueleafs) != 0, -1 - np.asarray(nodes_truenodeids), nodes_truenodeids
    )
    no = np.where(
        np.asarray(nodes_falseleafs) != 0, -1 - np.asarray(nodes_falsenodeids), nodes_falsenodeids
    )
    members: dict[int, np.ndarray] = {}
    if membership_values is not None:
        flat = membership_values.reshape(-1)
        sets = [s[~np.isnan(s)] for s in np.split(flat, np.flatnonzero(np.isnan(flat)) + 1)]
        asking = np.flatnonzero(nodes_modes == MEMBER).tolist()
        members = dict(zip(asking, sets, strict=False))
    forest = Forest(
        np.asarray(tree_roots), np.asarray(nodes_featureids), nodes_splits.reshape(-1),
        nodes_modes.reshape(-1), np.asarray(nodes_missing_value_tracks_true or [0] * count), yes,
        no, members,
    )  # fmt: skip
    weights = [
        [(t, float(w))]
        for t, w in zip(leaf_targetids, leaf_weights.reshape(-1).tolist(), strict=True)
    ]
    scores = _scores(forest.leaves(x), weights, n_targets, AGGREGATES[aggregate_function])
    return np.asarray(transformed(scores, TRANSFORMS[post_transform])).astype(x.dtype)


def _older(
    a: dict[str, Any], trees: list[int], ids: list[int], targets: list[int], weights: list[float]
) -> tuple[Forest, list[list[tuple[int, float]]]]:
    """A forest whose nodes are named by tree and number, leaves among them."""
    names = list(zip(a["nodes_treeids"], a["nodes_nodeids"], strict=True))
    leaves = [i for i, m in enumerate(a["nodes_modes"]) if m == "LEAF"]
    place = {names[i]: -1 - k for k, i in enumerate(leaves)}
    inner = [i for i, m in enumerate(a["nodes_modes"]) if m != "LEAF"]
    place |= {names[i]: k for k, i in enumerate(inner)}
    said: list[list[tuple[int, float]]] = [[] for _ in leaves]
    for tree, node, target, weight in zip(trees, ids, targets, weights, strict=True):
        leaf = place[tree, node]
        if leaf < 0:
            said[-1 - leaf].append((target, weight))
    values = a.get("nodes_values")
    if values is None:
        values = a["nodes_values_as_tensor"].reshape(-1).tolist()
    roots: dict[int, int] = {}
    for name in names:
        roots.setdefault(name[0], place[name])
    missing = a.get("nodes_missing_value_tracks_true") or [0] * len(names)

    def along(kind: str) -> np.ndarray:
        return np.asarray([place[names[i][0], a[kind][i]] for i in inner], np.int64)

    forest = Forest(
        np.asarray(list(roots.values())),
        np.asarray([a["nodes_featureids"][i] for i in inner], np.int64),
        np.asarray([values[i] for i in inner], np.float32),
        np.asarray([MODES.index(a["nodes_modes"][i]) for i in inner]),
        np.asarray([missing[i] for i in inner]), along("nodes_truenodeids"),
        along("nodes_falsenodeids"), {},
    )  # fmt: skip
    return forest, said


def _numbers(listed: list[float] | None, tensor: Host | None) -> list[float]:
    return (
        list(listed)
        if listed is not None
        else ([] if tensor is None else tensor.reshape(-1).tolist())
    )


@operator("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(
    x: Host, *, aggregate_function: str = "SUM", base_values: list[float] | None = None,
    base_values_as_tensor: Host | None = None, n_targets: int = 1,
    nodes_falsenodeids: list[int], nodes_featureids: list[int],
    nodes_hitrates: list[float] | None = None, nodes_hitrates_as_tensor: Host | None = None,
    nodes_missing_value_tracks_true: list[int] | None = None, nodes_modes: list[str],
    nodes_nodeids: list[int], nodes_treeids: list[int], nodes_truenodeids: list[int],
    nodes_values: list[float] | None = None, nodes_values_as_tensor: Host | None = None,
    post_transform: str = "NONE", target_ids: list[int], target_nodeids: list[int],
    target_treeids: list[int], target_weights: list[float] | None = None,
    target_weights_as_tensor: Host | None = None,
) -> Host:  # fmt: skip
    weights = _numbers(target_weights, target_weights_as_tensor)
    forest, said = _older(locals(), target_treeids, target_nodeids, target_ids, weights)
    scores = _scores(forest.leaves(x), said, n_targets, aggregate_function)
    base = _numbers(base_values, base_values_as_tensor)
    scores = scores + base if base else scores
    return np.asarray(transformed(scores, post_transform)).astype(np.float32)


@operator("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(
    x: Host, *, base_values: list[float] | None = None,
    base_values_as_tensor: Host | None = None, class_ids: list[int], class_nodeids: list[int],
    class_treeids: list[int], class_weights: list[float] | None = None,
    class_weights_as_tensor: Host | None = None, classlabels_int64s: list[int] | None = None,
    classlabels_strings: list[str] | None = None, nodes_falsenodeids: list[int],
    nodes_featureids: list[int], nodes_hitrates: list[float] | None = None,
    nodes_hitrates_as_tensor: Host | None = None,
    nodes_missing_value_tracks_true: list[int] | None = None, nodes_modes: list[str],
    nodes_nodeids: list[int], nodes_treeids: list[int], nodes_truenodeids: list[int],
    nodes_values: list[float] | None = None, nodes_values_as_tensor: Host | None = None,
    post_transform: str = "NONE",
) -> tuple[Value, Host]:  # fmt: skip
    weights = _numbers(class_weights, class_weights_as_tensor)
    forest, said = _older(locals(), class_treeids, class_nodeids, class_ids, weights)
    labels: list[Any] = list(classlabels_strings or classlabels_int64s or [])
    scores = _scores(forest.leaves(x), said, max(len(labels), 1), "SUM")
    base = _numbers(base_values, base_values_as_tensor)
    scores = scores + base if base else scores
    if len(labels) == 2 and set(class_ids) in ({0}, {1}):
        one = scores[:, [next(iter(set(class_ids)))]]
        best = (one[:, 0] > (0.5 if post_transform == "NONE" else 0)).astype(np.int64)
        other = 1 - one if post_transform == "NONE" else -one
        scores = np.concatenate([other, one], axis=1)
    else:
        best = np.argmax(scores, axis=1)
    return labelled(best, labels), np.asarray(transformed(scores, post_transform)).astype(
        np.float32
    )

"""Groups of a module's parameters, by path, pattern or predicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingle.nn import Module, Parameter, select
from ingle.nn.selection import Selector
from ingle.tensor.errors import ArgumentError


def param_groups(
    module: Module, *rules: tuple[Selector, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Groups for an optimizer: a parameter gets the options of the first rule that names it.

    Args:
        module: whose parameters.
        rules: pairs of a selector, as `ingle.nn.select` takes, and options such as `lr`, a number
            or a schedule, and `weight_decay`. What no rule names is a group without options.

    Raises:
        ArgumentError: a rule names no parameter that is left.

    >>> from ingle import nn, optim
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
    >>> groups = optim.param_groups(
    ...     model,
    ...     (lambda path, p: p.ndim == 1, {"weight_decay": 0.0}),
    ...     ("2", {"lr": optim.schedule.Cosine(0.1, steps=100)}),
    ... )
    >>> [list(group["params"]) for group in groups]
    [['0.bias', '1.weight', '1.bias', '2.bias'], ['2.weight'], ['0.weight']]
    >>> optimizer = optim.AdamW(groups, lr=0.01)
    """
    left: dict[str, Parameter] = dict(module.named_parameters())
    groups: list[dict[str, Any]] = []
    for i, rule in enumerate(rules):
        if not (isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[1], Mapping)):
            raise ArgumentError(
                f"param_groups: rule {i} must be a pair of a selector and options, such as "
                f'("*.bias", {{"weight_decay": 0.0}}), got {rule!r:.80}'
            )
        selector, options = rule
        named = select(module, selector)
        found = {path: p for path, p in named.items() if path in left}
        if not found:
            raise ArgumentError(
                f"param_groups: rule {i}, {selector!r}, names no parameter that an earlier one "
                f"does not name; it names {', '.join(named) or 'none'}"
            )
        groups.append({**options, "params": found})
        left = {path: p for path, p in left.items() if path not in found}
    return [*groups, {"params": left}] if left else groups

"""The table of operators: functions by domain, name and the opset that they hold from.

An operator is a function. Its positional parameters are the inputs, where the annotation says in
what form they come: `Tensor`, `Host` (a NumPy array), `Array` (either, all alike), `Operand` (the
same, or a number) or `Value` (as it is). Its keyword parameters are ONNX's attributes with their
defaults. Two more are given to those who ask: `outputs`, how many results the graph uses, and
`device`, where new tensors go.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ingle.tensor import Device

from ..errors import UnsupportedError
from .values import Value, device_of, host, tensor, together, weak

F = TypeVar("F", bound=Callable[..., Any])
GIVEN = ("outputs", "device")
"""Keyword parameters that are no attributes."""


@dataclass(frozen=True)
class Operator:
    """An operator from one opset on.

    Attributes:
        domain, name, since: which.
        function: what it does.
        inputs: the annotation of each input.
        variadic: that of the last, where any number may come.
        attributes: the names it knows.
        given: what else it asks for, of `GIVEN`.
        required: how many inputs it cannot do without.
    """

    domain: str
    name: str
    since: int
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    variadic: str | None
    attributes: frozenset[str]
    given: frozenset[str]
    required: int

    def __call__(
        self,
        inputs: Sequence[Value],
        attributes: dict[str, Any],
        outputs: int = 1,
        device: Device | None = None,
    ) -> tuple[Value, ...]:
        """The results for inputs in any form."""
        where = device_of(inputs) or device
        extra = {"outputs": outputs, "device": where}
        chosen = {name: extra[name] for name in self.given}
        result = self.function(*self._formed(inputs, where), **attributes, **chosen)
        return result if isinstance(result, tuple) else (result,)

    def _formed(self, inputs: Sequence[Value], device: Device | None) -> list[Value]:
        forms = [*self.inputs]
        if self.variadic is not None:
            forms += [self.variadic] * (len(inputs) - len(forms))
        formed = list(inputs)
        alike = [i for i, f in enumerate(forms[: len(formed)]) if f in ("Array", "Operand")]
        chosen = [formed[i] for i in alike]
        if alike and forms[alike[0]] == "Operand":
            chosen = weak(chosen)
        for i, x in zip(alike, together(chosen, device), strict=True):
            formed[i] = x
        for i, (x, form) in enumerate(zip(formed, forms, strict=False)):
            if x is None or form in ("Array", "Operand", "Value"):
                continue
            formed[i] = host(x) if form == "Host" else tensor(x, device)
        return formed


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
"""All there are, the newest of each first."""


def operator(name: str, since: int = 1, domain: str = "") -> Callable[[F], F]:
    """Enters a function into the table under an operator's name.

    Args:
        name: ONNX's.
        since: the first opset that it holds for.
        domain: empty for `ai.onnx`.

    >>> import ingle.tensor as it
    >>> from ingle import importer
    >>> @importer.operator("Thrice", domain="org.example")
    ... def thrice(x: it.Tensor) -> it.Tensor:
    ...     return 3.0 * x
    >>> importer.opset({"": 17, "org.example": 1})["org.example"].Thrice(it.ones(2)).tolist()
    [3.0, 3.0]
    """

    def enter(function: F) -> F:
        signature = inspect.signature(function)
        inputs, variadic, attributes, required = [], None, set(), 0
        for p in signature.parameters.values():
            form = str(p.annotation).removesuffix(" | None")
            if p.kind is p.VAR_POSITIONAL:
                variadic = form
            elif p.kind is p.KEYWORD_ONLY:
                attributes.add(p.name)
            elif p.kind is not p.VAR_KEYWORD:
                inputs.append(form)
                required += p.default is p.empty
        entry = Operator(
            domain, name, since, function, tuple(inputs), variadic,
            frozenset(attributes.difference(GIVEN)), frozenset(attributes.intersection(GIVEN)),
            required,
        )  # fmt: skip
        entries = OPERATORS.setdefault((domain, name), [])
        entries.insert(0, entry)  # before one of the same opset, in whose place it comes
        entries.sort(key=lambda e: -e.since)
        return function

    return enter


def find(domain: str, name: str, opset: int) -> Operator | None:
    """The operator as it is in an opset; None if there is none."""
    entries = OPERATORS.get((domain, name), [])
    return next((e for e in entries if e.since <= opset), None)


def unsupported(domain: str, name: str, opset: int, where: str) -> UnsupportedError:
    """The error for an operator that there is none of."""
    full = f"{domain or 'ai.onnx'}.{name}"
    since = [e.since for e in OPERATORS.get((domain, name), [])]
    if since:
        return UnsupportedError(
            f"{where}: {full} of opset {opset} is not supported, only from opset {min(since)} on; "
            "convert the model with onnx.version_converter.convert_version"
        )
    return UnsupportedError(
        f"{where}: the operator {full} (opset {opset}) is not supported; "
        "`ingle import inspect FILE` lists all that a model needs. Write it with "
        "`ingle.importer.operator(name, domain=...)`, or export the model without it"
    )

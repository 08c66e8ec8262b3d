"""What loops compute, as functions of an array library, so that each system runs the same formula.

`scan(step, carry, xs)` is the library's own loop, or one of Python that it unrolls or runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Scan = Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any], tuple[Any, Any]]

TIME_STEP = 0.05


class Loops:
    """The workloads of loops in one library.

    Args:
        tanh, sigmoid, zeros: of the library; `zeros` takes a shape.
        scan: its loop.
    """

    def __init__(
        self, tanh: Callable[[Any], Any], sigmoid: Callable[[Any], Any],
        zeros: Callable[[tuple[int, ...]], Any], scan: Scan,
    ) -> None:  # fmt: skip
        self.tanh = tanh
        self.sigmoid = sigmoid
        self.zeros = zeros
        self.scan = scan

    def rnn(self, xs: Any, weight: Any) -> Any:
        """The states (time, batch, size) of an Elman network."""

        def step(h: Any, x: Any) -> tuple[Any, Any]:
            h = self.tanh(h @ weight + x)
            return h, h

        return self.scan(step, self.zeros(tuple(xs.shape[1:])), xs)[1]

    def lstm(self, xs: Any, inner: Any, outer: Any, bias: Any) -> Any:
        """The states (time, batch, size) of an LSTM; gates in PyTorch's order."""
        size = outer.shape[0]

        def step(carry: Any, x: Any) -> tuple[Any, Any]:
            h, c = carry
            z = x @ inner + h @ outer + bias
            i, f, g, o = (z[:, k * size : (k + 1) * size] for k in range(4))
            c = self.sigmoid(f) * c + self.sigmoid(i) * self.tanh(g)
            h = self.sigmoid(o) * self.tanh(c)
            return (h, c), h

        zero = self.zeros((xs.shape[1], size))
        return self.scan(step, (zero, zero), xs)[1]

    def ode(self, y: Any, times: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        """A neural differential equation, driven from outside, by the Runge-Kutta method."""

        def step(y: Any, t: Any) -> tuple[Any, Any]:
            def slope(y: Any) -> Any:
                return self.tanh((y * y * y) @ w1 + b1 + t) @ w2 + b2

            k1 = slope(y)
            k2 = slope(y + TIME_STEP / 2 * k1)
            k3 = slope(y + TIME_STEP / 2 * k2)
            k4 = slope(y + TIME_STEP * k3)
            y = y + TIME_STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, y

        return self.scan(step, y, times)[1]


def unrolled(stack: Callable[[list[Any]], Any]) -> Scan:
    """A loop of Python."""

    def scan(step: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
        results = []
        for i in range(xs.shape[0]):
            carry, y = step(carry, xs[i])
            results.append(y)
        return carry, stack(results)

    return scan


def functions(own: Loops, python: Loops) -> dict[str, Callable[..., Any]]:
    """By name, with the library's loop and with that of Python."""
    found = {name: getattr(own, name) for name in ("rnn", "lstm", "ode")}
    return found | {f"{name}_unrolled": getattr(python, name) for name in ("rnn",)}

"""Whole models: which layers are quantized, prepared for it, and converted."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ingle.tensor.errors import ArgumentError, OperandError
from ingle.tensor.plugins import transform

from ..embedding import Embedding
from ..linear import Linear
from ..module import Module
from ..placing import replace
from .config import QuantizationConfig
from .convolution import BYTES, CONVOLUTIONS
from .embedding import QuantizedEmbedding
from .linear import QuantizedLinear
from .parameters import OWNERS, matrices, quantize_parameter
from .prepared import PREPARED, _Prepared, is_prepared, plain_kind

M = TypeVar("M", bound=Module)
Choice = QuantizationConfig | Mapping[str, QuantizationConfig | None]
Chosen = dict[str, tuple[Module, QuantizationConfig]]


def quantize(model: M, config: Choice = BYTES, *, calibrate: Iterable[Any] | None = None) -> M:
    """Quantizes linear layers, convolutions and embeddings; changes the model and returns it.

    The matrices of recurrent layers and of attention are kept as codes, too, without activations.

    Args:
        model: holds the layers, or is one.
        config: for all; or by glob of path, such as `{"head": None, "*.linear1": config, "*": …}`,
            of which the first that fits counts. None leaves a layer as it is.
        calibrate: batches for `activations="static"`, which the model is called on: a tuple holds
            its arguments, anything else is the only one.

    Returns:
        The model in evaluation mode if it was; another layer if it is itself one.

    Raises:
        ArgumentError: a glob fits no layer, or there is none to quantize; `calibrate` is missing.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model = nn.quantize(model, {"2": None, "*": nn.QuantizationConfig("int8")})
    >>> [type(m).__name__ for m in model]
    ['QuantizedLinear', 'ReLU', 'Linear']
    """
    chosen = _chosen("quantize", model, config)
    for path, (layer, one) in list(chosen.items()):
        if type(layer) in OWNERS:
            for name in matrices(layer):
                quantize_parameter(layer, name, one)
            del chosen[path]
    if any(c.activations == "static" for _, c in chosen.values()):
        if calibrate is None:
            raise ArgumentError(
                "quantize: activations='static' needs the range of what comes in: pass "
                "calibrate=batches, or prepare the model, call it, and convert it"
            )
        model = _prepare(model, chosen, train=False)
        _run(model, calibrate)
        return convert(model)
    for path, (layer, one) in chosen.items():
        model = replace(model, path, _quantized(layer, one))
    return model


def prepare(model: M, config: Choice = BYTES, *, train: bool = False) -> M:
    """Gives layers observers of what comes in; changes the model and returns it.

    Args:
        model, config: as for `quantize`.
        train: for quantization-aware training: weights and activations pass through their codes,
            and gradients through the rounding (Bengio et al., 2013). Parameters keep their places
            and names, so that an optimizer made before goes on with them. Recurrent layers and
            attention's own matrices are left as they are.

    >>> import ingle.tensor as it
    >>> from ingle import nn, optim
    >>> config = nn.QuantizationConfig("int4")
    >>> model = nn.prepare(nn.Sequential(nn.Linear(4, 2)), config, train=True)
    >>> optimizer = optim.SGD(model, lr=0.1)
    >>> optimizer.step(it.sum(model(it.ones((3, 4)))).backward())
    >>> type(nn.convert(model)[0]).__name__
    'QuantizedLinear'
    """
    return _prepare(model, _chosen("prepare", model, config), train)


def _prepare(model: M, chosen: Chosen, train: bool) -> M:
    for path, (layer, one) in chosen.items():
        if type(layer) in OWNERS:
            continue
        made: Any = PREPARED[type(layer)].of(layer, one, train)
        model = replace(model, path, made)
    return model


def convert(model: M) -> M:
    """Quantized layers in place of prepared ones; changes the model and returns it.

    Raises:
        OperandError: nothing is prepared, or a layer has observed nothing.

    >>> import ingle.tensor as it
    >>> from ingle import nn
    >>> config = nn.QuantizationConfig(activations="static")
    >>> model = nn.prepare(nn.Sequential(nn.Linear(4, 2)), config)
    >>> seen = model(it.ones((8, 4)))
    >>> type(nn.convert(model)[0]).__name__
    'QuantizedLinear'
    """
    found = {p: m for p, m in model.named_modules() if is_prepared(m)}
    if not found:
        raise OperandError("convert: there is no prepared layer; call prepare(model, config) first")
    made: dict[str, Module] = {}
    for path, layer in found.items():
        assert isinstance(layer, _Prepared)
        seen = None if layer.observer is None else layer.observer.range()
        made[path] = _quantized(layer._restored(plain_kind(layer)), layer.config, seen)
    for path, layer in made.items():
        model = replace(model, path, layer)
    return model


def footprint(model: Module) -> int:
    """The bytes of all parameters and buffers, tied ones once.

    >>> from ingle import nn
    >>> model = nn.Sequential(nn.Linear(256, 256, bias=False))
    >>> nn.footprint(model), nn.footprint(nn.quantize(model, nn.QuantizationConfig("int4", per=64)))
    (262144, 36864)
    """
    return sum(cell.raw.nbytes for cell in [*model.parameters(), *model.buffers()])


def _quantized(layer: Module, config: QuantizationConfig, seen: Any = None) -> Module:
    if type(layer) is Embedding:
        return QuantizedEmbedding(layer, config)
    kind: Any = QuantizedLinear if type(layer) is Linear else CONVOLUTIONS[type(layer)]  # type: ignore[index]
    made: Module = kind(layer, config, input_range=seen)
    return made.train(layer.training)


def _chosen(who: str, model: Module, config: Choice) -> Chosen:
    """The layers to quantize by path, each with how."""
    able = {p: m for p, m in model.named_modules() if type(m) in (*PREPARED, *OWNERS)}
    rules = {"*": config} if isinstance(config, QuantizationConfig) else dict(config)
    names = ", ".join(p or "the model itself" for p in able) or "none"
    if not able:
        raise ArgumentError(
            f"{who}: there is no layer to quantize in {type(model).__name__}: these are "
            f"{', '.join(kind.__name__ for kind in (*PREPARED, *OWNERS))}"
        )
    for pattern, one in rules.items():
        if not any(fnmatch.fnmatchcase(p, pattern) for p in able):
            raise ArgumentError(f"{who}: no layer's path matches {pattern!r}; there are {names}")
        if one is not None and not isinstance(one, QuantizationConfig):
            raise OperandError(
                f"{who}: config[{pattern!r}] must be a QuantizationConfig or None, got "
                f"{type(one).__name__}"
            )
    found: Chosen = {}
    for path, layer in able.items():
        one = next((c for g, c in rules.items() if fnmatch.fnmatchcase(path, g)), None)
        if one is not None:
            found[path] = layer, one
    return found


def _run(model: Module, batches: Iterable[Any]) -> None:
    """Calls the model on batches, as it is used, without recording gradients."""
    no_grad = transform("no_grad")
    was_training = model.training
    model.eval()
    count = 0
    try:
        for batch in batches:
            call = model if no_grad is None else no_grad()(model)
            call(*batch) if isinstance(batch, tuple) else call(batch)
            count += 1
    finally:
        model.train(was_training)
    if not count:
        raise ArgumentError("quantize: calibrate holds no batches; a generator may be used up")

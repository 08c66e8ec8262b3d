"""ONNX's backend interface: `prepare`, `run_model`, `run_node`, `supports_device`.

The onnx package's tests of backends run through it.

>>> import onnx
>>> import numpy as np
>>> from ingle.importer import onnx_backend
>>> node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
>>> onnx_backend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])])[0].tolist()
[4.0, 6.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ingle.tensor as it
from ingle.tensor import Tensor
from ingle.tensor.errors import IngleError
from ingle.tensor.plugins import discover

from .onnx.module import OnnxModule, load_onnx
from .onnx.reading import onnx_package
from .onnx.values import Value

if TYPE_CHECKING:
    import onnx
    from onnx.backend.base import Backend as Base
    from onnx.backend.base import BackendRep as Prepared
else:
    try:
        from onnx.backend.base import Backend as Base
        from onnx.backend.base import BackendRep as Prepared
    except ImportError:  # the extra is not installed: `prepare` says so
        Base = Prepared = object


def _device(name: str) -> str:
    """Ingle's name of a device: ONNX writes `CPU` and `CUDA:1`."""
    kind, _, index = name.lower().partition(":")
    return f"{kind}:{index}" if index not in ("", "0") else kind


class IngleRep(Prepared):
    """A model that is ready to run.

    Attributes:
        module: the model.
    """

    def __init__(self, module: OnnxModule, device: str) -> None:
        self.module = module
        self._device = device

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs as NumPy arrays, lists and None, for inputs in order."""
        with it.device(self._device):
            return tuple(_plain(v) for v in self.module.run(self.module.arguments(inputs)))


def _plain(value: Value) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    return [_plain(v) for v in value] if isinstance(value, list) else value


class IngleBackend(Base):
    """`onnx.backend.base.Backend` by Ingle: prepares models and runs them."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator of the model is supported."""
        try:
            cls.prepare(model, device)
        except IngleError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> IngleRep:
        """The model on a device, which is `CPU` or a name of Ingle's."""
        onnx_package()
        name = _device(device)
        return IngleRep(load_onnx(model, device=name), name)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of a model."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The outputs of one operator of the newest opset, or of `opset_version`."""
        onnx = onnx_package()
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        types = [onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape
        ) for n, v in zip([n for n in node.input if n], inputs, strict=True)]  # fmt: skip
        outputs = [onnx.ValueInfoProto(name=n) for n in node.output]
        graph = onnx.helper.make_graph([node], "node", types, outputs)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        from .onnx.reading import Reader

        model = onnx.helper.make_model(graph, opset_imports=imports)
        name = _device(device)
        module = OnnxModule(Reader(model, "the node", "").read(), device=name)
        return IngleRep(module, name).run(list(inputs))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a plugin brings a device of this name."""
        return _device(device).partition(":")[0] in discover().backends


is_compatible = IngleBackend.is_compatible
prepare = IngleBackend.prepare
run_model = IngleBackend.run_model
run_node = IngleBackend.run_node
supports_device = IngleBackend.supports_device

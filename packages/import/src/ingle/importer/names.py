"""Every name that `ingle.importer` exports, one explicit line each."""

from . import onnx_backend as onnx_backend
from .errors import ModelError as ModelError
from .errors import UnsupportedError as UnsupportedError
from .errors import WeightsError as WeightsError
from .export.onnx_model import export_onnx as export_onnx
from .export.python_code import to_python as to_python
from .onnx.calling import Opset as Opset
from .onnx.calling import body as body
from .onnx.calling import opset as opset
from .onnx.module import OnnxModule as OnnxModule
from .onnx.module import load_onnx as load_onnx
from .onnx.registry import operator as operator
from .pretrained.fetching import fetch_pretrained as fetch_pretrained
from .pretrained.loading import from_pretrained as from_pretrained
from .pretrained.loading import read_config as read_config
from .weights.loading import LoadReport as LoadReport
from .weights.loading import load_state_dict as load_state_dict
from .weights.loading import load_weights as load_weights
from .weights.loading import open_weights as open_weights
from .weights.saving import save_gguf as save_gguf
from .weights.saving import save_safetensors as save_safetensors
from .weights.source import Weights as Weights

"""Weights and activations as codes of few bits: layers, calibration, training for it."""

from .config import QuantizationConfig as QuantizationConfig
from .convolution import QuantizedConv1d as QuantizedConv1d
from .convolution import QuantizedConv2d as QuantizedConv2d
from .convolution import QuantizedConv3d as QuantizedConv3d
from .embedding import QuantizedEmbedding as QuantizedEmbedding
from .linear import QuantizedLinear as QuantizedLinear
from .observers import HistogramObserver as HistogramObserver
from .observers import MinMaxObserver as MinMaxObserver
from .observers import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
from .observers import Observer as Observer
from .parameters import quantize_parameter as quantize_parameter
from .quantizing import convert as convert
from .quantizing import footprint as footprint
from .quantizing import prepare as prepare
from .quantizing import quantize as quantize

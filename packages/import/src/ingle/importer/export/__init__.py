"""Modules out of Ingle: as ONNX, as code."""

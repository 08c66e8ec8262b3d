"""ONNX models as modules: reading, the operators, running."""

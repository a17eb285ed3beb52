"""Export of a model as a checked ONNX file."""

from sciops.models.onnx.export import OnnxFile, export_onnx

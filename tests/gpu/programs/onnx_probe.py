"""ONNX Runtime on its CUDA provider. See probe.py."""

import ctypes

import probe

try:
    import numpy
    import onnxruntime
    from onnx import TensorProto, helper
except ImportError as problem:
    probe.skip(f"ONNX Runtime is not here: {problem}")
PROVIDER = "CUDAExecutionProvider"
if PROVIDER not in onnxruntime.get_available_providers():
    probe.skip("this ONNX Runtime has no CUDA provider")


def session(nodes, inputs, outputs, tensors=()):
    graph = helper.make_graph(nodes, "probe", inputs, outputs, list(tensors))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[PROVIDER])
    if PROVIDER not in made.get_providers():
        probe.skip("ONNX Runtime's CUDA provider does not start")
    return made


def compute():
    info = helper.make_tensor_value_info
    made = session([helper.make_node("MatMul", ["x", "x"], ["y"]),
                    helper.make_node("Tanh", ["y"], ["z"])],
                   [info("x", TensorProto.FLOAT, [256, 256])],
                   [info("z", TensorProto.FLOAT, [256, 256])])
    x = numpy.linspace(-0.01, 0.01, 256 * 256, dtype=numpy.float32).reshape(256, 256)
    results = []
    for _ in range(5):
        x = made.run(None, {"x": x})[0] + 0.001
        results.append(float(x.sum()))
    return results


def take(count):
    """Runs a model that makes this many bytes on the device and returns one number."""
    info = helper.make_tensor_value_info
    made = session([helper.make_node("ConstantOfShape", ["shape"], ["ones"]),
                    helper.make_node("ReduceMax", ["ones"], ["top"], keepdims=0)],
                   [info("shape", TensorProto.INT64, [2])], [info("top", TensorProto.FLOAT, [])])
    made.run(None, {"shape": numpy.array([count // 4 // 1024, 1024], dtype=numpy.int64)})


def total_bytes():
    """Returns the driver's answer in this process; ONNX Runtime has no call for it."""
    total = ctypes.c_size_t()
    ctypes.CDLL("libcuda.so.1").cuDeviceTotalMem_v2(ctypes.byref(total), 0)
    return total.value


if __name__ == "__main__":
    probe.run(compute, total_bytes, take)

"""Values of a model: tensors of the request to its arguments, and its results to tensors.

PyTorch is never imported here unless the program has imported it before the server starts.
"""

import ctypes
import sys
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .tensor import Tensor, TensorError

Tensors = Dict[str, Tensor]

_TORCH = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "FP16": "float16", "BF16": "bfloat16", "FP32": "float32", "FP64": "float64",
}
_DATATYPES = {name: datatype for datatype, name in _TORCH.items()}
# formats of Python's buffers
_FORMATS = {"?": "BOOL", "B": "UINT8", "H": "UINT16", "I": "UINT32", "Q": "UINT64", "b": "INT8",
            "h": "INT16", "i": "INT32", "q": "INT64", "l": "INT64", "L": "UINT64", "e": "FP16",
            "f": "FP32", "d": "FP64"}


def loaded_torch() -> Any:
    """Return the module torch if the program has imported it, or None."""
    return sys.modules.get("torch")


class Model:
    """A callable with the conversions of its arguments and results.

    The callable gets a dict from names to tensors, or one argument for each of the `arguments`, in
    their order. Tensors are those of PyTorch, on `device`, if `torch` is given; BYTES stay
    :class:`Tensor`.
    """

    def __init__(self, function: Callable[..., Any], arguments: Optional[Sequence[str]] = None,
                 outputs: Sequence[str] = (), torch: Any = None, device: Any = None) -> None:
        self._function = function
        self._arguments = None if arguments is None else list(arguments)
        self._outputs = list(outputs)
        self._torch = torch
        self._device = device

    def call(self, inputs: Tensors) -> Any:
        """Call the model, and return its result without conversion."""
        if self._torch is None:
            return self._apply(dict(inputs))
        with self._torch.inference_mode():
            return self._apply({name: self._to_torch(t) for name, t in inputs.items()})

    def run(self, inputs: Tensors) -> Tensors:
        """Call the model, and return its results by name."""
        return self.results(self.call(inputs))

    def results(self, value: Any) -> Tensors:
        """Name the results: those of a dict have names, a tuple contains several results, and
        anything else is one result."""
        if isinstance(value, Mapping):
            return {str(name): as_tensor(result) for name, result in value.items()}
        values = value if isinstance(value, tuple) else (value,)
        names = self._outputs or [f"output{i}" for i in range(len(values))]
        if len(names) != len(values):
            raise TensorError(f"the model returned {len(values)} outputs instead of {len(names)}")
        return {name: as_tensor(result) for name, result in zip(names, values)}

    def _apply(self, inputs: Dict[str, Any]) -> Any:
        if self._arguments is None:
            return self._function(inputs)
        return self._function(*[inputs[name] for name in self._arguments])

    def _to_torch(self, tensor: Tensor) -> Any:
        torch = self._torch
        if tensor.datatype == "BYTES":
            return tensor
        dtype = getattr(torch, _TORCH[tensor.datatype])
        if len(tensor.data) == 0:
            return torch.empty(tensor.shape, dtype=dtype, device=self._device)
        flat = torch.frombuffer(bytearray(tensor.data), dtype=dtype)  # type: ignore[arg-type]
        return flat.reshape(tensor.shape).to(self._device)


def as_tensor(value: Any) -> Tensor:
    """Convert a result: a Tensor, a tensor of PyTorch, a buffer (array, memoryview, an array of
    numpy), a number, a string, or lists of these."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "data_ptr"):
        return _from_torch(value)
    if isinstance(value, (bool, int, float, str, bytes, list, tuple)):
        return Tensor.of(value)
    try:
        view = memoryview(value)
    except TypeError:
        raise TensorError(f"the model returned a {type(value).__name__}, which is no tensor") \
            from None
    datatype = _FORMATS.get(view.format.lstrip("<=@"))
    if datatype is None or sys.byteorder != "little":
        raise TensorError(f"a buffer of format {view.format!r} cannot be a tensor")
    return Tensor(datatype, tuple(view.shape or ()), view.tobytes())


def _from_torch(value: Any) -> Tensor:
    name = str(value.dtype).rpartition(".")[2]
    if name not in _DATATYPES:
        raise TensorError(f"a tensor of {value.dtype} cannot be sent")
    value = value.detach().cpu().contiguous()
    size = value.element_size() * value.numel()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Tensor(_DATATYPES[name], tuple(value.shape), data)

"""Tensors as they travel: a datatype of the Open Inference Protocol, a shape, and raw elements."""

import struct
from dataclasses import dataclass
from math import prod
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

DIMENSIONS_MAX = 16

# datatype: the code of module struct. BF16 and BYTES have code of their own.
_CODES: Dict[str, str] = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q",
    "FP16": "e", "FP32": "f", "FP64": "d",
}
_FLOATS = ("FP16", "BF16", "FP32", "FP64")
DATATYPES = frozenset(_CODES) | {"BF16", "BYTES"}


class TensorError(ValueError):
    """A tensor whose data, shape and datatype do not fit together."""


def element_bytes(datatype: str) -> int:
    """Return the size of an element. BYTES, whose elements differ in size: 0."""
    if datatype == "BYTES":
        return 0
    return 2 if datatype == "BF16" else struct.calcsize("<" + _CODES[datatype])


@dataclass(frozen=True)
class Tensor:
    """A tensor in row-major order.

    `data` contains the elements in little-endian order; of a tensor of datatype BYTES, the tuple of
    its elements. :meth:`flat` and :meth:`tolist` return Python values.
    """

    datatype: str
    shape: Tuple[int, ...]
    data: Union[bytes, memoryview, Tuple[bytes, ...]]

    def __post_init__(self) -> None:
        if self.datatype not in DATATYPES:
            raise TensorError(f"unknown datatype {self.datatype!r}")
        want = prod(self.shape) * (element_bytes(self.datatype) or 1)
        if len(self.data) != want:
            unit = "elements" if self.datatype == "BYTES" else "bytes"
            raise TensorError(f"shape {list(self.shape)} of {self.datatype} needs {want} {unit}, "
                              f"and there are {len(self.data)}")

    @classmethod
    def of(cls, values: Any, datatype: Optional[str] = None,
           shape: Optional[Sequence[int]] = None) -> "Tensor":
        """Build a tensor from nested or flat lists of Python values, or from one value.

        Without a datatype: INT64, FP64, BOOL or BYTES, by the values. Without a shape: the shape
        of the nested lists.
        """
        flat = _flatten(values)
        shape = _shape_of(values) if shape is None else tuple(shape)
        if len(flat) != prod(shape):
            raise TensorError(f"shape {list(shape)} needs {prod(shape)} values, "
                              f"and there are {len(flat)}")
        datatype = _guess(flat) if datatype is None else datatype
        return cls(datatype, tuple(shape), _pack(datatype, flat))

    def flat(self) -> List[Any]:
        """Return all elements in one list."""
        if isinstance(self.data, tuple):
            return list(self.data)
        count = prod(self.shape)
        if self.datatype == "BF16":
            words = struct.unpack(f"<{count}H", self.data)
            wide = struct.pack(f"<{count}I", *(word << 16 for word in words))
            return list(struct.unpack(f"<{count}f", wide))
        return list(struct.unpack(f"<{count}{_CODES[self.datatype]}", self.data))

    def tolist(self) -> Any:
        """Return the elements in lists nested by the shape."""
        values: List[Any] = self.flat()
        if not self.shape:
            return values[0]
        for i in range(len(self.shape) - 1, 0, -1):
            size = self.shape[i]
            values = [values[j * size:(j + 1) * size] for j in range(prod(self.shape[:i]))]
        return values

    def rows(self, first: int, end: int) -> "Tensor":
        """Return the rows from `first` to before `end` along axis 0, without a copy."""
        size = len(self.data) // self.shape[0] if self.shape[0] else 0
        data = self.data if isinstance(self.data, tuple) else memoryview(self.data)
        return Tensor(self.datatype, (end - first, *self.shape[1:]),
                      data[first * size:end * size])


def join(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors of one datatype along axis 0. All have the same shape beyond that axis."""
    first = tensors[0]
    if len(tensors) == 1:
        return first
    shape = (sum(tensor.shape[0] for tensor in tensors), *first.shape[1:])
    if first.datatype == "BYTES":
        return Tensor("BYTES", shape, tuple(element for t in tensors for element in t.flat()))
    pieces = [t.data for t in tensors if not isinstance(t.data, tuple)]
    return Tensor(first.datatype, shape, b"".join(pieces))


def _flatten(values: Any) -> List[Any]:
    flat = [values]
    for _ in range(DIMENSIONS_MAX):
        if not any(isinstance(value, (list, tuple)) for value in flat):
            return flat
        if not all(isinstance(value, (list, tuple)) for value in flat):
            raise TensorError("lists and values are mixed in the data")
        flat = [value for inner in flat for value in inner]
    if any(isinstance(value, (list, tuple)) for value in flat):
        raise TensorError(f"the data has more than {DIMENSIONS_MAX} dimensions")
    return flat


def _shape_of(values: Any) -> Tuple[int, ...]:
    shape = []
    level = [values]
    while level and isinstance(level[0], (list, tuple)):
        if any(len(inner) != len(level[0]) for inner in level):
            raise TensorError("the lists of one level differ in length")
        shape.append(len(level[0]))
        level = [value for inner in level for value in inner]
    return tuple(shape)


def _guess(flat: List[Any]) -> str:
    kinds = set(map(type, flat))
    if kinds <= {int}:
        return "INT64"
    if kinds <= {int, float}:
        return "FP64"
    if kinds == {bool}:
        return "BOOL"
    if kinds <= {str, bytes}:
        return "BYTES"
    raise TensorError("values must be numbers, booleans or strings of one kind, and are "
                      + ", ".join(sorted(kind.__name__ for kind in kinds)))


def _pack(datatype: str, flat: List[Any]) -> Union[bytes, Tuple[bytes, ...]]:
    kinds = set(map(type, flat))
    wanted = ({str, bytes} if datatype == "BYTES" else {bool} if datatype == "BOOL" else
              {int, float} if datatype in _FLOATS else {int})
    if not kinds <= wanted:
        wrong = sorted(kind.__name__ for kind in kinds - wanted)
        raise TensorError(f"values of {datatype} must not be of type {', '.join(wrong)}")
    try:
        if datatype == "BYTES":
            return tuple(v.encode() if isinstance(v, str) else v for v in flat)
        if datatype == "BF16":
            return struct.pack(f"<{len(flat)}H", *map(_bfloat16, flat))
        return struct.pack(f"<{len(flat)}{_CODES[datatype]}", *flat)
    except KeyError:
        raise TensorError(f"unknown datatype {datatype!r}") from None
    except (struct.error, OverflowError, UnicodeEncodeError):
        raise TensorError(f"a value is out of the range of {datatype}") from None


def _bfloat16(value: float) -> int:
    if value != value:
        return 0x7fc0
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16  # round to nearest, ties to even

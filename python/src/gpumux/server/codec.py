"""Requests and answers of the Open Inference Protocol, version 2, with its binary extension.

A request is a JSON object with `inputs`, and optionally `id`, `outputs` and `parameters`. An input
has `name`, `datatype`, `shape`, and either `data` or the parameter `binary_data_size`: its bytes
then follow the JSON object, in the order of the inputs. The header Inference-Header-Content-Length
gives the length of the JSON object.
"""

import json
import struct
from dataclasses import dataclass
from math import prod
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Tuple

from .tensor import DATATYPES, DIMENSIONS_MAX, Tensor, TensorError, element_bytes

INPUTS_MAX = 64
OUTPUTS_MAX = 64
NAME_MAX = 256
_ELEMENTS_MAX = 2**40  # keeps products of sizes small; the length of the body is the real bound


class CodecError(ValueError):
    """A request that does not follow the protocol."""


@dataclass(frozen=True)
class InferRequest:
    """A request to a model. `outputs`: name and whether binary, of the wanted outputs; empty: all
    outputs, in the form of `is_binary`."""

    id: Optional[str]
    inputs: Dict[str, Tensor]
    outputs: Dict[str, bool]
    is_binary: bool


def decode(body: bytes, json_length: Optional[int] = None) -> InferRequest:
    """Parse the body of a request, with the value of Inference-Header-Content-Length if given."""
    end = len(body) if json_length is None else json_length
    if end > len(body):
        raise CodecError(f"Inference-Header-Content-Length is {end}, and the body has "
                         f"{len(body)} bytes")
    root = _object(_parse(body[:end]), "the request")
    parameters = _object(root.get("parameters", {}), "parameters")
    is_binary = _flag(parameters, "binary_data_output", False, "parameters")
    identity = root.get("id")
    if identity is not None and (not isinstance(identity, str) or len(identity) > NAME_MAX):
        raise CodecError(f"id must be a string of at most {NAME_MAX} characters")
    rest = memoryview(body)[end:]
    inputs: Dict[str, Tensor] = {}
    entries = _list(root.get("inputs"), "inputs", INPUTS_MAX)
    if not entries:
        raise CodecError("inputs must not be empty")
    for i, entry in enumerate(entries):
        where = f"inputs[{i}]"
        entry = _object(entry, where)
        name = _name(entry, where)
        if name in inputs:
            raise CodecError(f"{where}: a second input {name!r}")
        try:
            inputs[name], rest = _input(entry, where, rest)
        except TensorError as e:
            raise CodecError(f"{where}: {e}") from None
    if len(rest) > 0:
        raise CodecError(f"{len(rest)} bytes follow the last input")
    outputs: Dict[str, bool] = {}
    for i, entry in enumerate(_list(root.get("outputs", []), "outputs", OUTPUTS_MAX)):
        where = f"outputs[{i}]"
        entry = _object(entry, where)
        wants = _object(entry.get("parameters", {}), where + ".parameters")
        outputs[_name(entry, where)] = _flag(wants, "binary_data", is_binary, where)
    return InferRequest(identity, inputs, outputs, is_binary)


def encode(model: str, request: InferRequest,
           outputs: Mapping[str, Tensor]) -> Tuple[bytes, Optional[int]]:
    """Return the body of the answer, and the length of its JSON object if bytes follow. Raises
    CodecError if the request wants an output that the model does not have."""
    wanted = request.outputs or dict.fromkeys(outputs, request.is_binary)
    described: List[Dict[str, Any]] = []
    blobs: List[bytes] = []
    for name, is_binary in wanted.items():
        if name not in outputs:
            raise CodecError(f"the model has no output {name!r}")
        tensor = outputs[name]
        entry = {"name": name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        if is_binary:
            blobs.append(_blob(tensor))
            entry["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            entry["data"] = _values(tensor, name)
        described.append(entry)
    root: Dict[str, Any] = {"model_name": model, "outputs": described}
    if request.id is not None:
        root["id"] = request.id
    try:
        text = json.dumps(root, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        raise TensorError("an output contains NaN or infinity, which JSON cannot express: "
                          "ask for binary_data") from None
    return b"".join([text, *blobs]), len(text) if blobs else None


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_constant)
    except RecursionError:
        raise CodecError("the JSON is nested too deeply") from None
    except ValueError as e:
        raise CodecError(f"the request is not JSON: {e}") from None


def _object(value: Any, what: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"{what} must be an object")
    return value


def _list(value: Any, what: str, most: int) -> List[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise CodecError(f"{what} must be a list of at most {most} entries")
    return value


def _flag(parameters: Dict[str, Any], key: str, otherwise: bool, where: str) -> bool:
    value = parameters.get(key, otherwise)
    if not isinstance(value, bool):
        raise CodecError(f"{where}: {key} must be true or false")
    return value


def _name(entry: Dict[str, Any], where: str) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= NAME_MAX:
        raise CodecError(f"{where}: name must be a string of 1 to {NAME_MAX} characters")
    return name


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _ELEMENTS_MAX


def _input(entry: Dict[str, Any], where: str, rest: memoryview) -> Tuple[Tensor, memoryview]:
    datatype, shape = entry.get("datatype"), entry.get("shape")
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise CodecError(f"{where}: datatype must be one of {', '.join(sorted(DATATYPES))}")
    if (not isinstance(shape, list) or len(shape) > DIMENSIONS_MAX
            or not all(_is_size(size) for size in shape) or prod(shape) > _ELEMENTS_MAX):
        raise CodecError(f"{where}: shape must be a list of at most {DIMENSIONS_MAX} sizes")
    size = _object(entry.get("parameters", {}), where + ".parameters").get("binary_data_size")
    if size is None:
        if not isinstance(entry.get("data"), list):
            raise CodecError(f"{where}: data must be a list")
        return Tensor.of(entry["data"], datatype, shape), rest
    if "data" in entry:
        raise CodecError(f"{where}: data and binary_data_size exclude each other")
    if not _is_size(size) or size > len(rest):
        raise CodecError(f"{where}: binary_data_size must be at most {len(rest)}, the number of "
                         "bytes that remain")
    blob = rest[:size]
    data = _elements(blob, prod(shape), where) if element_bytes(datatype) == 0 else blob
    if datatype == "BOOL" and bytes(blob).strip(b"\0\1"):
        raise CodecError(f"{where}: a byte of BOOL must be 0 or 1")
    return Tensor(datatype, tuple(shape), data), rest[size:]


def _elements(blob: memoryview, count: int, where: str) -> Tuple[bytes, ...]:
    """Split the elements of datatype BYTES: a length of four bytes before each element."""
    elements = []
    at = 0
    while at < len(blob) and len(elements) <= count:
        if len(blob) - at < 4:
            raise CodecError(f"{where}: the length of an element of BYTES is cut off")
        (size,) = struct.unpack_from("<I", blob, at)
        at += 4
        if size > len(blob) - at:
            raise CodecError(f"{where}: an element of BYTES is cut off")
        elements.append(bytes(blob[at:at + size]))
        at += size
    return tuple(elements)


def _blob(tensor: Tensor) -> bytes:
    if isinstance(tensor.data, tuple):
        return b"".join(struct.pack("<I", len(e)) + e for e in tensor.data)
    return bytes(tensor.data)


def _values(tensor: Tensor, name: str) -> List[Any]:
    if tensor.datatype != "BYTES":
        return tensor.flat()
    try:
        return [element.decode() for element in tensor.flat()]
    except UnicodeDecodeError:
        raise TensorError(f"the output {name!r} contains bytes that are not UTF-8: ask for "
                          "binary_data") from None

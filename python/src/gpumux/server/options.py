"""The options of a server."""

import os
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from .tensor import DATATYPES

PORT_DEFAULT = 8000
BODY_MAX = 64 << 20
BATCH_MAX = 4096

# name: datatype and shape, in which -1 stands for any size
Declared = Mapping[str, Tuple[str, Sequence[int]]]


@dataclass(frozen=True)
class Options:
    """Settings of :func:`gpumux.serve`, which documents each of them."""

    name: str = "model"
    host: str = "127.0.0.1"
    port: Optional[int] = None
    max_batch: int = 32
    target: Optional[float] = None
    inputs: Declared = field(default_factory=dict)
    outputs: Declared = field(default_factory=dict)
    as_dict: bool = True
    device: Any = None
    max_queue: Optional[int] = None
    max_body: int = BODY_MAX
    max_streams: int = 8
    grace: float = 30.0

    def __post_init__(self) -> None:
        if not self.name or any(c in '/"\\?#% ' or not c.isprintable() for c in self.name):
            raise ValueError(f"name {self.name!r} does not fit into a path")
        if not 0 <= self.max_batch <= BATCH_MAX:
            raise ValueError(f"max_batch must be from 0 to {BATCH_MAX}, and is {self.max_batch}")
        if self.target is not None and not 0 < self.target < 1000:
            raise ValueError(f"target must be seconds above 0, and is {self.target}")
        for name, (datatype, _) in (*self.inputs.items(), *self.outputs.items()):
            if datatype not in DATATYPES:
                raise ValueError(f"{name} has the unknown datatype {datatype!r}")
        if not self.as_dict and not self.inputs:
            raise ValueError("as_dict=False needs inputs, whose order is that of the arguments")

    def port_number(self) -> int:
        """Return the port: the option, GPUMUX_PORT, PORT, or the default."""
        if self.port is not None:
            return self.port
        text = os.environ.get("GPUMUX_PORT") or os.environ.get("PORT")
        return int(text) if text else PORT_DEFAULT

    def metadata(self) -> Dict[str, Any]:
        """Return the metadata of the model, as the protocol defines it."""
        def describe(declared: Declared) -> Any:
            return [{"name": name, "datatype": datatype, "shape": list(shape)}
                    for name, (datatype, shape) in declared.items()]
        return {"name": self.name, "versions": ["1"], "platform": "gpumux_python",
                "inputs": describe(self.inputs), "outputs": describe(self.outputs)}

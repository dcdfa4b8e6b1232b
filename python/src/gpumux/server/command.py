"""The command `python3 -m gpumux.serve`."""

import argparse
import importlib
import os
import re
import sys
from typing import Any, Callable, List, Optional

from .server import Server

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def duration(text: str) -> float:
    """Parse a time such as 50ms, 0.5s or 800us; a number without a unit is in seconds."""
    match = re.fullmatch(r"([0-9.]+)(us|ms|s|)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 50ms")
    return float(match[1]) * _UNITS[match[2] or "s"]


def find(text: str) -> Callable[..., Any]:
    """Return the function of MODULE:FUNCTION. The module may be in the current directory."""
    module, colon, function = text.partition(":")
    if not colon:
        raise SystemExit(f"gpumux.serve: {text!r} is not MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as e:
        raise SystemExit(f"gpumux.serve: cannot load {text}: {e}") from None
    return found


def main(words: Optional[List[str]] = None) -> int:
    """Serve the model that the command line names."""
    parser = argparse.ArgumentParser("python3 -m gpumux.serve", description="Serve a model in "
                                     "Python by the Open Inference Protocol, version 2.")
    parser.add_argument("model", metavar="MODULE:FUNCTION", help="the model")
    parser.add_argument("--name", default="model", help="name of the model in paths")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, help="port to listen on; default: GPUMUX_PORT, PORT, "
                        "or 8000")
    parser.add_argument("--max-batch", type=int, default=32, help="largest number of rows of a "
                        "batch; 0: pass each request on alone, with any shapes")
    parser.add_argument("--target", type=duration, help="latency target of a request, such as 50ms")
    parser.add_argument("--device", help="device of PyTorch's tensors, such as cuda")
    given = parser.parse_args(words)
    try:
        server = Server(find(given.model), name=given.name, host=given.host, port=given.port,
                        max_batch=given.max_batch, target=given.target, device=given.device)
        server.run()
    except (OSError, ValueError) as e:
        print(f"gpumux.serve: {e}", file=sys.stderr)
        return 1
    return 0

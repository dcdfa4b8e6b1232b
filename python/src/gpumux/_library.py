"""The C library libgpumux.so.0, by ctypes.

A call that the installed library does not have yet is None in `Library`, and the
package does without it.
"""

import ctypes
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

NAME = "libgpumux.so.0"

_HANDLE = ctypes.c_void_p
_NUMBER = ctypes.c_uint64
_INT = ctypes.c_int
_TEXT = ctypes.c_char_p

# name: (result, arguments, whether every version of the library has the call)
_CALLS: Dict[str, Tuple[Any, Sequence[Any], bool]] = {
    "open": (_HANDLE, (), True),
    "close": (None, (_HANDLE,), True),
    "report_progress": (_INT, (_HANDLE, _NUMBER), True),
    "report_latency": (_INT, (_HANDLE, _NUMBER), False),
    "request_begin": (_NUMBER, (_HANDLE, _NUMBER), False),
    "request_end": (_INT, (_HANDLE, _NUMBER), False),
    "request_drop": (None, (_HANDLE, _NUMBER), False),
    "tell_ready": (_INT, (_HANDLE, _INT), True),
    "batch_size": (_NUMBER, (_HANDLE, _NUMBER), True),
    "use_batch": (None, (_HANDLE, _NUMBER), False),
    "checkpoint_wanted": (_INT, (_HANDLE,), False),
    "batch_size_min": (_NUMBER, (_HANDLE,), True),
    "batch_size_max": (_NUMBER, (_HANDLE,), True),
    "batch_size_step": (_NUMBER, (_HANDLE,), True),
    "workload_id": (_NUMBER, (_HANDLE,), True),
    "workload_name": (_TEXT, (_HANDLE,), True),
    "attempt": (_INT, (_HANDLE,), True),
    "array_index": (_INT, (_HANDLE,), True),
    "node_name": (_TEXT, (_HANDLE,), True),
    "quota_bytes": (_NUMBER, (_HANDLE,), True),
    "share_min_percent": (_INT, (_HANDLE,), True),
    "share_max_percent": (_INT, (_HANDLE,), True),
}


class Library:
    """The calls of libgpumux, without their prefix: `library.open()`."""

    def __init__(self, calls: Dict[str, Optional[Callable[..., Any]]]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        try:
            return self._calls[name]
        except KeyError:
            raise AttributeError(name) from None


def load(name: str = NAME) -> Optional[Library]:
    """Load the library. None: there is none, or it is not libgpumux."""
    try:
        shared = ctypes.CDLL(name)
    except OSError:
        return None
    calls: Dict[str, Optional[Callable[..., Any]]] = {}
    for call, (result, arguments, is_old) in _CALLS.items():
        function = getattr(shared, "gpumux_" + call, None)
        if function is None and is_old:
            return None
        if function is not None:
            function.restype = result
            function.argtypes = arguments
        calls[call] = function
    return Library(calls)

"""Programs that run as workloads of gpumux: reports, and advice.

A task::

    import gpumux

    while samples < wanted:
        batch = gpumux.batch_size(64)
        train_step(batch)
        gpumux.use_batch(batch)
        samples += batch
        gpumux.report_progress(samples)
        if gpumux.checkpoint_wanted():
            save(samples)

A service::

    gpumux.ready()
    for message in inbox:
        with gpumux.request():
            answer(message)

A model behind HTTP::

    gpumux.serve(model, target=0.05)

The same program runs without gpumux, and where libgpumux is not installed: the calls then do
nothing. The functions of this module use one :class:`Session` for the whole process, which the
first call opens.
"""

import atexit
import threading
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

from ._session import PROGRESS_MAX, Request, Session

__all__ = [
    "PROGRESS_MAX",
    "Request",
    "Session",
    "batch_size",
    "checkpoint_wanted",
    "open",
    "ready",
    "report_latency",
    "report_progress",
    "request",
    "serve",
    "session",
    "use_batch",
]

_lock = threading.Lock()
_session: Optional[Session] = None


def open() -> Session:
    """Open a session of the caller's own, which the caller closes."""
    return Session()


def session() -> Session:
    """Return the session of the process, which the first call opens and the end of the process
    closes."""
    global _session
    if _session is None:
        with _lock:
            if _session is None:
                opened = Session()
                atexit.register(opened.close)
                _session = opened
    return _session


def report_progress(done: int) -> bool:
    """See :meth:`Session.report_progress`."""
    return session().report_progress(done)


def batch_size(otherwise: int) -> int:
    """See :meth:`Session.batch_size`."""
    return session().batch_size(otherwise)


def use_batch(batch: int) -> None:
    """See :meth:`Session.use_batch`."""
    session().use_batch(batch)


def checkpoint_wanted() -> bool:
    """See :meth:`Session.checkpoint_wanted`."""
    return session().checkpoint_wanted()


def request(age: float = 0.0) -> Request:
    """See :meth:`Session.request`."""
    return session().request(age)


def report_latency(seconds: float) -> bool:
    """See :meth:`Session.report_latency`."""
    return session().report_latency(seconds)


def ready(timeout: float = 0.0) -> bool:
    """See :meth:`Session.ready`."""
    return session().ready(timeout)


def serve(model: Callable[..., Any], name: str = "model", port: Optional[int] = None,
          max_batch: int = 32, target: Optional[float] = None,
          inputs: Optional[Mapping[str, Tuple[str, Sequence[int]]]] = None,
          outputs: Optional[Mapping[str, Tuple[str, Sequence[int]]]] = None,
          as_dict: bool = True, device: Any = None, host: str = "127.0.0.1",
          max_queue: Optional[int] = None, max_body: int = 64 << 20, max_streams: int = 8,
          grace: float = 30.0) -> None:
    """Serve a model by the Open Inference Protocol, version 2, until SIGTERM or SIGINT.

    `model` takes a dict from names to tensors, and returns a dict, a tuple of outputs, or one
    output; a generator serves a stream. Tensors are PyTorch's if the program has imported torch,
    and :class:`gpumux.server.Tensor` otherwise.

    :param name: name of the model in paths
    :param port: port; None: GPUMUX_PORT, PORT, or 8000. 0: any free port
    :param max_batch: largest number of rows of a batch, which gpumux's advice may lower; 0: each
        request is passed on alone, with any shapes
    :param target: latency target of a request in seconds; None: no request waits for others
    :param inputs: names of the inputs, each with datatype and shape; -1 stands for any size. Other
        requests get status 400. None: any inputs
    :param outputs: the same for the outputs: the names for a model that returns no dict
    :param as_dict: False: the model takes one argument for each input, in the order of `inputs`
    :param device: device of PyTorch's tensors, such as "cuda"
    :param host: address to listen on
    :param max_queue: most rows that wait, in addition to the bound that follows from the target
    :param max_body: largest body of a request, in bytes
    :param max_streams: most streams at a time, each with a thread of its own
    :param grace: seconds after SIGTERM after which open requests are abandoned
    """
    from .server import Server
    Server(model, name=name, port=port, max_batch=max_batch, target=target, inputs=inputs or {},
           outputs=outputs or {}, as_dict=as_dict, device=device, host=host, max_queue=max_queue,
           max_body=max_body, max_streams=max_streams, grace=grace).run()

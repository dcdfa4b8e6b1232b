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

The same program runs without gpumux, and where libgpumux is not installed: the calls then do
nothing. The functions of this module use one :class:`Session` for the whole process, which the
first call opens.
"""

import atexit
import threading
from typing import Optional

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

"""The handle of a program on gpumux."""

import math
import time
from types import TracebackType
from typing import Optional, Type

from . import _library

PROGRESS_MAX = 10**15
_US = 1_000_000
_LATENCY_MAX_US = 200 * _US
_NUMBER_MAX = 2**64 - 1


def _microseconds(seconds: float, what: str) -> int:
    if not seconds >= 0:
        raise ValueError(f"{what} must not be negative, and is {seconds}")
    return _LATENCY_MAX_US if math.isinf(seconds) else min(round(seconds * _US), _LATENCY_MAX_US)


def _count(number: int, most: int, what: str) -> int:
    if not 0 <= number <= most:
        raise ValueError(f"{what} must be from 0 to {most}, and is {number}")
    return int(number)


class Request:
    """An open request of a service, from :meth:`Session.request`.

    A context manager: the request ends with the ``with`` block, and is dropped if the block raises
    an exception. Outside of a ``with`` block call :meth:`begin`, and later :meth:`end` or
    :meth:`drop`. Any thread may end a request that another thread began.
    """

    def __init__(self, session: "Session", age: float = 0.0) -> None:
        self._session = session
        self._age_us = _microseconds(age, "age")
        self._token = 0
        self._arrival: Optional[float] = None  # without gpumux_request_begin()

    def begin(self) -> "Request":
        """Say that the request has arrived."""
        library = self._session._library
        if library is None:
            pass
        elif library.request_begin is not None:
            self._token = library.request_begin(self._session._handle, self._age_us)
        else:
            self._arrival = time.monotonic() - self._age_us / _US
        return self

    def end(self) -> bool:
        """Say that the request has been answered, and count its latency. A second call does
        nothing."""
        session, token, arrival = self._session, self._token, self._arrival
        self._token, self._arrival = 0, None
        if arrival is not None:
            return session.report_latency(time.monotonic() - arrival)
        if token == 0 or session._library is None:
            return True
        return session._library.request_end(session._handle, token) == 0

    def drop(self) -> None:
        """Say that the request will not be answered, or that its latency does not count."""
        session, token = self._session, self._token
        self._token, self._arrival = 0, None
        if token != 0 and session._library is not None:
            session._library.request_drop(session._handle, token)

    def __enter__(self) -> "Request":
        return self.begin()

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self.end()
        else:
            self.drop()


class Session:
    """A program that runs as a workload of gpumux.

    Outside of gpumux, and where libgpumux is not installed, :attr:`active` is False, every call
    does nothing, and facts have the values that their comments give as "outside". Several threads
    may use a session at the same time, and both processes may use the session after ``os.fork()``.
    Most programs need no session of their own: the functions of the package use one for the whole
    process.

    No call raises an exception because gpumux cannot be reached: reports return whether they were
    counted or sent, and the next report includes what could not be sent.
    """

    def __init__(self) -> None:
        self._library = _library.load()
        self._handle = self._library.open() if self._library is not None else None
        if not self._handle:
            self._library = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Send what has not been sent yet, and end the session. No other thread may use the session
        at this time; afterwards every call does nothing."""
        library, handle = self._library, self._handle
        self._library = self._handle = None
        if library is not None:
            library.close(handle)

    @property
    def active(self) -> bool:
        """Whether gpumux started this program, and libgpumux is installed."""
        return self._library is not None

    # Tasks

    def report_progress(self, done: int) -> bool:
        """Report how many samples (a service: requests) this attempt has done so far.

        Call as often as you like, at least once every 10 seconds: at most four counts per second
        are sent. Only one process of a workload should report progress.
        """
        done = _count(done, PROGRESS_MAX, "done")
        library = self._library
        return library is None or library.report_progress(self._handle, done) == 0

    def batch_size(self, otherwise: int) -> int:
        """Return the batch size to use now, or `otherwise` if gpumux suggests none, and outside.

        The size may change during an attempt: call again before each step.
        """
        otherwise = _count(otherwise, _NUMBER_MAX, "otherwise")
        library = self._library
        return otherwise if library is None else int(library.batch_size(self._handle, otherwise))

    def use_batch(self, batch: int) -> None:
        """Say which batch size the program has used for its last step.

        A loader may have prepared batches of an earlier size: give the size that was used, whatever
        :meth:`batch_size` returned.
        """
        batch = _count(batch, _NUMBER_MAX, "batch")
        library = self._library
        if library is not None and library.use_batch is not None:
            library.use_batch(self._handle, batch)

    def checkpoint_wanted(self) -> bool:
        """Return True once for each checkpoint that gpumux asks for. Outside: False."""
        library = self._library
        if library is None or library.checkpoint_wanted is None:
            return False
        return library.checkpoint_wanted(self._handle) != 0

    # Services

    def request(self, age: float = 0.0) -> Request:
        """Return a request of a service that arrived `age` seconds ago: ``with s.request(): …``

        gpumux counts the time from the arrival to the end of the block as the latency of the
        request. If the service has an SLO, tasks on the service's devices make way before the
        request can miss its deadline.
        """
        return Request(self, age)

    def report_latency(self, seconds: float) -> bool:
        """Report the latency of one request that was not counted by :meth:`request`."""
        us = _microseconds(seconds, "latency")
        library = self._library
        if library is None or library.report_latency is None:
            return True
        return library.report_latency(self._handle, us) == 0

    def ready(self, timeout: float = 0.0) -> bool:
        """Report that the service is ready. A service that was submitted with ``ready: client``
        counts as running from then on.

        With a `timeout` in seconds, wait at most that long, and return whether gpumux has received
        the report. Without one, return whether the report was sent. Outside: True.
        """
        if not 0 <= timeout <= 2**31 / 1000 - 1:
            raise ValueError(f"timeout must be from 0 to {2**31 // 1000 - 1}, and is {timeout}")
        library = self._library
        if library is None:
            return True
        return library.tell_ready(self._handle, math.ceil(timeout * 1000)) == 0

    # Facts

    @property
    def workload_id(self) -> int:
        """The number of the workload. Outside: 0."""
        return self._number("workload_id", 0)

    @property
    def workload_name(self) -> str:
        """The name of the workload. Outside: ""."""
        return self._text("workload_name")

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. Above 1, an earlier attempt may have left a
        checkpoint. Outside: 0."""
        return self._number("attempt", 0)

    @property
    def array_index(self) -> Optional[int]:
        """The index of the workload in its array, from 0. None: in no array, and outside."""
        index = self._number("array_index", -1)
        return None if index < 0 else index

    @property
    def node_name(self) -> str:
        """The name of the node. Outside: ""."""
        return self._text("node_name")

    @property
    def quota_bytes(self) -> int:
        """The device memory that the workload may allocate on each device. 0: no quota, and
        outside."""
        return self._number("quota_bytes", 0)

    @property
    def share_min_percent(self) -> int:
        """The guaranteed percentage of each device's SMs. Outside: 0."""
        return self._number("share_min_percent", 0)

    @property
    def share_max_percent(self) -> int:
        """The largest percentage of each device's SMs. Outside: 100."""
        return self._number("share_max_percent", 100)

    @property
    def batch_size_min(self) -> int:
        """The smallest batch size that the description allows. 0: not set, and outside."""
        return self._number("batch_size_min", 0)

    @property
    def batch_size_max(self) -> int:
        """The largest batch size that the description allows. 0: not set, and outside."""
        return self._number("batch_size_max", 0)

    @property
    def batch_size_step(self) -> int:
        """A number of which every batch size is a multiple. 0: not set, and outside."""
        return self._number("batch_size_step", 0)

    def _number(self, call: str, outside: int) -> int:
        library = self._library
        return outside if library is None else int(getattr(library, call)(self._handle))

    def _text(self, call: str) -> str:
        library = self._library
        if library is None:
            return ""
        return str(getattr(library, call)(self._handle).decode("utf-8", "replace"))

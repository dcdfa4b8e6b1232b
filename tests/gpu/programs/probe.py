"""What each program of this folder says at its end: one line, a JSON object.

  result       numbers that it computed on the device
  again        the same numbers, computed once more after memory was refused
  total_bytes  the device's memory as its framework sees it
  oom          the framework's own error for PROBE_BYTES more, null if it got them
  limited_by   who refused: "driver", or "framework" where its own allocator knew better

It exits with 77, after a line that says why, when the framework cannot use the device at all.
"""

import json
import os
import sys
import time

BYTES = int(os.environ.get("PROBE_BYTES", 1 << 30))


def skip(why):
    print(why)
    sys.exit(77)


def run(compute, total_bytes, take, limited_by="driver"):
    """take(bytes) takes and gives back so much memory, or raises what its framework does."""
    result = compute()
    oom = None
    try:
        take(BYTES)
    except Exception as problem:  # whichever it is, it is told
        text = str(problem).strip().splitlines()[0][:160] if str(problem).strip() else ""
        oom = f"{type(problem).__module__}.{type(problem).__qualname__}: {text}"
    print(json.dumps({"result": result, "again": compute(), "total_bytes": total_bytes(), "oom": oom,
                      "limited_by": limited_by}), flush=True)
    time.sleep(float(os.environ.get("PROBE_HOLD_S", 0)))

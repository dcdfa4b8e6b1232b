"""The result of each program of this folder: its last line, a JSON object.

  result       numbers computed on the device
  again        the same numbers, computed again after memory was refused
  total_bytes  the device's memory as the framework sees it
  oom          the framework's own error for PROBE_BYTES more; null if it got them
  limited_by   source of the refusal: "driver", or "framework" if its own allocator refused

A program exits with 77, after a line with the reason, if the framework cannot use the device.
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
    """Runs a probe. take(bytes) allocates and frees memory, or raises the framework's error."""
    result = compute()
    oom = None
    try:
        take(BYTES)
    except Exception as problem:  # any error is reported
        text = str(problem).strip().splitlines()[0][:160] if str(problem).strip() else ""
        oom = f"{type(problem).__module__}.{type(problem).__qualname__}: {text}"
    print(json.dumps({"result": result, "again": compute(), "total_bytes": total_bytes(),
                      "oom": oom, "limited_by": limited_by}), flush=True)
    time.sleep(float(os.environ.get("PROBE_HOLD_S", 0)))

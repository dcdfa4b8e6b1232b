"""Common code of the measurements of protection on a GPU.

A part (class Part) is one JSON file, rewritten after each point, so that an interrupted part keeps
its points. A Node is `gpumux up` in a fresh directory; an Agent is tests/shim/registrar.c, which
gives processes their limits without a node. All processes end with the program. No setting of the
card is changed.

The environment tells the program what to use; bench/gpu/lab.sh and scripts that source it set it:
  GPUMUX_ROOT    the unpacked bundle
  GPUMUX_TREE    the source tree
  GPUMUX_OUT     folder for results
  GPUMUX_WORK    a short, empty folder for everything else; every process with this path in its
                 environment or arguments is ended
  GPUMUX_LIMIT   time limit of the part in seconds
  GPUMUX_EMULATE 1: rehearse on an emulated device
"""

import atexit
import contextlib
import http.client
import json
import math
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(os.environ.get("GPUMUX_ROOT", "."))
TREE = Path(os.environ.get("GPUMUX_TREE", Path(__file__).resolve().parents[2]))
OUT = Path(os.environ.get("GPUMUX_OUT", "."))
LIMIT_S = float(os.environ.get("GPUMUX_LIMIT", 420))
EMULATED = os.environ.get("GPUMUX_EMULATE") == "1"
GPUMUX = str(ROOT / "bin/gpumux")
BURN = str(ROOT / "bin/gpumux-burn")
SHIM = str(ROOT / "lib/gpumux/libgpumux-cuda.so")
EMULATION = ROOT / "lib/gpumux/emu"
GIB = 1 << 30
STARTED = time.monotonic()
WORK = Path(os.environ.get("GPUMUX_WORK") or tempfile.mkdtemp(prefix="gmp.", dir="/tmp"))


def say(text):
    print(f"[{time.monotonic() - STARTED:5.0f} s] {text}", flush=True)


def left_s():
    """Returns the seconds left until the time limit."""
    return LIMIT_S - (time.monotonic() - STARTED)


# ---- results ----

def without_paths(value):
    """Shortens every path to its last part, because a result must name no folder of the machine."""
    if isinstance(value, str):
        return re.sub(r"(?<![\w.])(?:/[\w.@+-]+){2,}/?",
                      lambda m: m.group().rstrip("/").rpartition("/")[2], value)
    if isinstance(value, dict):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def output_of(*command, timeout=20):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


class Part:
    """The result of one part: facts, points, bars, and untested items."""

    def __init__(self, name, what, test=None, kind="protection-"):
        run = os.environ.get("GPUMUX_RUN", "1")
        self.path = OUT / f"{kind}{name}{'' if run == '1' else '-' + run}.json"
        self.is_test = test is not None  # bars that must also hold on an emulated device
        gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                        "--format=csv,noheader") if not EMULATED else ""
        self.content = {
            "part": name, "run": int(run), "what": what,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "gpu": gpu or "emulated", "machine": f"{os.uname().sysname} {os.uname().release}, "
                                                f"{os.cpu_count()} cores",
            "gpumux": output_of(GPUMUX, "version").splitlines()[:1],
            "command": test or f"bench/gpu/protection.sh --part {name}", "complete": False,
            "seconds": 0, "bars": [], "points": [], "untested": []}
        self.write()
        sys.excepthook = self.fail

    def write(self):
        self.content["seconds"] = round(time.monotonic() - STARTED, 1)
        text = json.dumps(without_paths(self.content), indent=1) + "\n"
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def fail(self, kind, problem, trace):
        """Records an unexpected exception in the result."""
        self.content["failure"] = f"{kind.__name__}: {problem}"
        self.write()
        sys.__excepthook__(kind, problem, trace)

    def point(self, **point):
        self.content["points"].append(point)
        self.write()
        say("point " + ", ".join(f"{k}={v}" for k, v in point.items()
                                 if not isinstance(v, (dict, list))))

    def bar(self, what, limit, measured, held, **more):
        """Records a bar, its limit and the measurement, in place of an earlier bar of that name.

        `held` None: undecided.
        """
        bars = [bar for bar in self.content["bars"] if bar["bar"] != what]
        bars.append({"bar": what, "limit": limit, "measured": measured, "held": held, **more})
        self.content["bars"] = bars
        self.write()

    def untested(self, what, why):
        self.content["untested"].append({"what": what, "why": why})
        say(f"untested: {what}: {why}")
        self.write()

    def end(self):
        """Prints the bars. Returns the program's exit status."""
        self.content["complete"] = True
        self.write()
        for bar in self.content["bars"]:
            held = {True: "yes", False: "NO", None: "?"}[bar["held"]]
            print(f"bar: {bar['bar']}: {bar['limit']}; measured {bar['measured']}; held {held}",
                  flush=True)
        for item in self.content["untested"]:
            print(f"untested: {item['what']}: {item['why']}", flush=True)
        is_missed = any(bar["held"] is False for bar in self.content["bars"])
        return 1 if is_missed and (not EMULATED or self.is_test) else 0


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def median_interval(values):
    """Returns the 95 % interval of the median by order statistics, for any distribution."""
    values = sorted(values)
    n = len(values)
    rank = 0
    while rank < n // 2:
        outside = sum(math.comb(n, k) for k in range(rank + 1)) / 2 ** n
        if 2 * outside > 0.05:
            break
        rank += 1
    rank = max(0, rank - 1)
    return [values[rank], values[n - 1 - rank]]


# ---- processes ----

class Stopwatch:
    """Waits for the end of a process by its pidfd, which cannot refer to another process."""

    def __init__(self, pid):
        self.pid, self.fd = pid, os.pidfd_open(pid)

    def send(self, number):
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.fd, number)

    def wait(self, seconds):
        """Returns whether the process ended in time."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(max(0, seconds) * 1000))

    def close(self):
        os.close(self.fd)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(what, check, seconds):
    """Returns the first true result of check. Raises TimeoutError with `what`."""
    end = time.monotonic() + min(seconds, max(1, left_s()))
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, LookupError, TypeError,
                                 ValueError):
            result = check()
            if result:
                return result
        if time.monotonic() >= end:
            raise TimeoutError(f"waited in vain: {what}")
        time.sleep(0.03)


def plain_environment(**more):
    """Returns the environment of a process outside of a node."""
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("GPUMUX_", "CUDA_MPS_")) and k != "LD_PRELOAD"}
    environment |= {"PYTHONUNBUFFERED": "1", "PROTECTION_WORK": str(WORK)}
    if EMULATED:
        environment |= {"LD_LIBRARY_PATH": str(EMULATION), "GPUMUX_EMU_DEVICES": "1xH200",
                        "XDG_RUNTIME_DIR": str(WORK)}
    return environment | more


children = []  # subprocess.Popen objects, in the order of their starts


def same_cores(count):
    """Returns the same cores every time, one of each pair of hyper-threads; None if there are
    fewer.

    The core of a process changes the time of its calls by a fifth.
    """
    cores, taken = [], set()
    for core in sorted(os.sched_getaffinity(0), reverse=True):
        topology = f"/sys/devices/system/cpu/cpu{core}/topology"
        with contextlib.suppress(OSError), open(f"{topology}/core_id") as core_id, \
                open(f"{topology}/physical_package_id") as package:
            place = (package.read(), core_id.read())
            if place not in taken:
                taken.add(place)
                cores.append(core)
    return cores[:count] if len(cores) >= count else None


def on_same_cores(count, command):
    """Returns the command, restricted to these cores."""
    cores = same_cores(count)
    if not cores or not shutil.which("taskset"):
        return command
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]


def start(command, **options):
    """Starts a process in its own session; it ends with the program."""
    child = subprocess.Popen(command, start_new_session=True, **options)
    children.append(child)
    return child


def end(child, seconds=10):
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class Talker:
    """A program that answers each line with a line, within a time limit."""

    def __init__(self, command, environment, log):
        self.log = open(log, "ab")
        self.child = start(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=self.log)
        self.buffer = b""

    def read(self, seconds):
        end_s = time.monotonic() + min(seconds, max(1, left_s()))
        while b"\n" not in self.buffer:
            wait = end_s - time.monotonic()
            ready = select.select([self.child.stdout], [], [], max(0, wait))[0]
            data = os.read(self.child.stdout.fileno(), 65536) if ready else b""
            if not data:
                tail = Path(self.log.name).read_text(errors="replace")[-400:]
                raise TimeoutError(f"no answer from {self.child.args[0]}: {tail}")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def ask(self, line, seconds):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()
        return self.read(seconds)

    def close(self):
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        end(self.child)
        self.log.close()


def ancestors():
    """Returns this process and its ancestors, which carry the folder's path and must survive."""
    found, pid = set(), os.getpid()
    while pid > 1:
        found.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def carriers():
    """Returns processes with the folder's path in their environment or arguments: all are ours."""
    found, mark, spared = [], str(WORK).encode(), ancestors()
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) in spared:
            continue
        with contextlib.suppress(OSError):
            if any(mark in (process / name).read_bytes() for name in ("environ", "cmdline")):
                found.append(int(process.name))
    return found


def sweep():
    """Ends all started processes, including MPS daemons, and removes the folder."""
    for node in list(nodes):
        with contextlib.suppress(Exception):
            node.close()
    for child in reversed(children):
        with contextlib.suppress(OSError):
            end(child, 3)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in carriers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end_s = time.monotonic() + 5
        while carriers() and time.monotonic() < end_s:
            time.sleep(0.05)
    shutil.rmtree(WORK, ignore_errors=True)


nodes = []
if __name__ != "__main__":
    atexit.register(sweep)
# SIGTERM marks the end of the limit: results are already written, so only the cleanup is left.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(124))
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))


# ---- building programs ----

def build_c(*sources):
    """Builds C sources of the tree. Returns an executable named after the first."""
    target = WORK / Path(sources[0]).stem
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{TREE / 'src'}",
                    *[str(TREE / s) for s in sources], "-ldl", "-lpthread", "-o", str(target)],
                   check=True, timeout=60)
    return str(target)


def find_nvcc():
    for folder in [*os.environ.get("PATH", "").split(":"), "/usr/local/cuda/bin"]:
        if os.access(f"{folder}/nvcc", os.X_OK):
            return f"{folder}/nvcc"
    return None


def build_cuda(source, *options, name=None):
    """Builds a .cu file with PTX only, which all current devices accept. Returns the executable."""
    target = WORK / (name or Path(source).stem)
    nvcc = find_nvcc()
    if not nvcc:
        raise FileNotFoundError("nvcc is not installed")
    subprocess.run([nvcc, "-O2", "-arch=compute_80", *options, str(TREE / source),
                    "-o", str(target)], check=True, timeout=120)
    return str(target)


# ---- MPS and limits for processes without a node ----

def mps_control():
    return str(EMULATION / "bin/nvidia-cuda-mps-control") if EMULATED else \
        shutil.which("nvidia-cuda-mps-control") or "/usr/bin/nvidia-cuda-mps-control"


@contextlib.contextmanager
def mps():
    """Runs an MPS daemon; yields the variables for its clients."""
    folder = WORK / "mps"
    folder.mkdir(exist_ok=True)
    variables = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    subprocess.run([mps_control(), "-d"], env=plain_environment(**variables), check=True,
                   timeout=20)
    try:
        yield variables
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([mps_control()], input=b"quit\n", env=plain_environment(**variables),
                           timeout=20, check=False, stdout=subprocess.DEVNULL)


class Agent:
    """A registrar, which gives limits to processes with variables() in their environment."""

    built = None

    def __init__(self, name, **limits):
        Agent.built = Agent.built or build_c("tests/shim/registrar.c")
        self.socket = str(WORK / name)
        options = [word for key, value in limits.items()
                   for word in (f"--{key.replace('_', '-')}", str(value))]
        self.child = start([Agent.built, "--socket", self.socket, *options], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
        if self.child.stdout.readline() != "ready\n":
            raise OSError("the registrar does not start")

    def variables(self, mark):
        return {"GPUMUX_REGISTER": self.socket, "GPUMUX_MARK": mark, "LD_PRELOAD": SHIM}

    def counters(self):
        """Returns the counters of all registered processes, including ended ones."""
        self.child.stdin.write("show\n")
        self.child.stdin.flush()
        found = []
        while (line := self.child.stdout.readline()) not in ("end\n", ""):
            found.append({key: int(value) if value.isdigit() else value for key, value in
                          (word.split("=", 1) for word in line.split()[1:])})
        return found

    def close(self):
        end(self.child)


# ---- a node ----

class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("gpumux", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Node:
    """`gpumux up` with settings; workloads are submitted by the command line."""

    def __init__(self, *settings):
        self.directory = Path(tempfile.mkdtemp(prefix="n", dir=WORK))
        self.state = self.directory / "s"
        self.socket = str(self.state / "api.sock")
        self.log = open(self.directory / "log", "wb")
        options = [word for setting in ("allow_root=true", "policy=firstfit", "beat=100ms",
                                        "max_neighbours=64", "backoff_min=20ms", *settings)
                   for word in ("--set", setting)]
        if EMULATED:
            options += ["--emulate", "1xH200"]
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("GPUMUX_", "CUDA_MPS"))}
        self.environment["GPUMUX_SOCKET"] = self.socket
        self.environment |= {"PYTHONUNBUFFERED": "1", "PROTECTION_WORK": str(WORK)}
        self.child = start([GPUMUX, "up", "--state", str(self.state), *options],
                           env=self.environment, stdin=subprocess.DEVNULL, stdout=self.log,
                           stderr=subprocess.STDOUT)
        nodes.append(self)
        try:
            wait_until("the device is healthy", lambda: self.device()["state"] == "healthy", 60)
        except TimeoutError as problem:
            raise OSError(f"gpumux up: {(self.directory / 'log').read_text()[-600:]}") from problem

    def api(self, method, path, body=None):
        connection = UnixConnection(self.socket)
        if self.child.poll() is not None:
            raise OSError(f"gpumux up ended by itself, {self.child.returncode}: "
                          f"{(self.directory / 'log').read_text()[-600:]}")
        try:
            connection.request(method, path, body=json.dumps(body) if body is not None else None,
                               headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 400:
                raise ValueError(
                    f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
            return json.loads(text) if text else None
        finally:
            connection.close()

    def device(self):
        return self.api("GET", "/v1/nodes")["nodes"][0]["devices"][0]

    def command(self, *arguments, timeout=30):
        done = subprocess.run([GPUMUX, *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
                              cwd=self.directory)
        if done.returncode != 0:
            raise OSError(f"gpumux {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def submit(self, *words):
        """submit("--quota", "2g", "--", COMMAND...) returns the workload's id."""
        return int(self.command("submit", "-q", "--directory", str(self.directory), *words))

    def show(self, number):
        return self.api("GET", f"/v1/workloads/{number}")

    def counters(self, number):
        usage = self.show(number).get("usage") or {}
        return (usage.get("protection") or {}).get("counters") or {}

    def wait_state(self, number, *states, seconds=60):
        def check():
            now = self.show(number)
            return now if now["state"] in states else None
        return wait_until(f"workload {number} is {' or '.join(states)}", check, seconds)

    def cancel(self, *numbers, grace=None):
        for number in numbers:
            with contextlib.suppress(ValueError):
                self.api("POST", f"/v1/workloads/{number}/cancel",
                         {"grace": grace} if grace else None)

    def cancel_all(self, seconds=15):
        def open_ones():
            states = "queued,placed,starting,running,stopping,suspended"
            answer = self.api("GET", f"/v1/workloads?limit=1000&state={states}")
            return [w["id"] for w in answer["workloads"]]
        self.cancel(*open_ones(), grace="1s")
        wait_until("all have ended", lambda: not open_ones(), seconds)

    def logs(self, number):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return self.command("logs", str(number))
        return ""

    def close(self):
        if self not in nodes:
            return
        nodes.remove(self)
        with contextlib.suppress(Exception):
            self.cancel_all()
        end(self.child, 20)
        self.log.close()


PID_THEN = 'echo $$ > "$0.new"; mv "$0.new" "$0"; exec "$@"'


class Workload:
    """A workload that writes its pid to a file, for signals and a watch from outside."""

    def __init__(self, node, options, command):
        self.node = node
        self.file = Path(tempfile.mktemp(prefix="p", dir=node.directory))
        self.id = node.submit(*options, "--", "sh", "-c", PID_THEN, str(self.file), *command)

    def pid(self, seconds=60):
        return int(wait_until(f"workload {self.id} has a process",
                              lambda: self.file.exists() and self.file.read_text().strip(),
                              seconds))


if __name__ == "__main__":
    sweep()  # after a part that was killed before its cleanup

"""matrix.py: pairs of a service and a training task, in every fixed mode of sharing a GPU and under
gpumux, by turns. matrix.sh explains the modes and runs this program.

All processes of a part stay resident; each is paused unless its point is measured. A service first
runs alone on the device, without MPS and without another context: its rate and its targets come
from that run.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import lab

SERVICES = {  # name: program of workloads/ and its options
    "resnet50-graph": ("resnet50.py", "--graph"),
    "inception-eager": ("inception_v3.py",),
    "yolo-eager": ("yolo.py",),
    "bert-eager": ("bert.py",),
    "roberta-graph": ("roberta.py", "--graph"),
    "gpt2-eager": ("gpt2.py",),
    "decoder": ("decoder.py",),
}
TASKS = {"resnet50": ("--model", "resnet50"), "bert": ("--model", "bert"),
         "gpt2-compiled": ("--model", "gpt2", "--compile"), "lstm": ("--model", "lstm"),
         "resnet50-compiled": ("--model", "resnet50", "--compile")}
PAIRS = [  # service, task, load in percent of what the service alone answers, and all modes or not
    ("resnet50-graph", "resnet50", 20, True), ("resnet50-graph", "bert", 60, False),
    ("decoder", "bert", 20, True),
    ("decoder", "gpt2-compiled", 60, False), ("inception-eager", "gpt2-compiled", 20, False),
    ("inception-eager", "resnet50", 60, False),
    ("bert-eager", "resnet50", 20, False), ("bert-eager", "lstm", 60, True),
    ("yolo-eager", "lstm", 20, False),
    ("yolo-eager", "resnet50", 60, False), ("roberta-graph", "gpt2-compiled", 20, False),
    ("roberta-graph", "lstm", 60, False)]
PARTS = {"1": (1, 2, 3), "2": (4, 5, 6), "3": (7, 8, 9), "4": (10, 11, 12)}
FACTORS = (1.25, 3.0)  # targets, relative to the same percentile of the service alone
GATE_US = 20000
P99_REQUESTS = 3000  # below, the target is for p95
KEEPS, FAILS, SPEED, FEWEST = 0.7, 1.4, 0.97, 1.1  # see judge()
POINT_COST_S, POINT_S_MIN = 0.7, 2.2  # start and pause of a point; its shortest time
QUOTA = {"service": "12g", "task": "30g"}
# Off before each point, as far as the registrar knows them.
SETTINGS = ("window-us", "gate-us", "linger-us", "gate-place", "rate-permille", "gate-rule",
            "need-us", "each-us", "burst-us", "calm-us", "target-us", "hold-ms", "company")


# ---- programs ----

def registrar_knows(name):
    return f'"{name}"' in (lab.TREE / "tests/shim/registrar.c").read_text()


def settings_off():
    return tuple(f"{name} 0" for name in SETTINGS if registrar_knows(name))


def shared_environment(threads=1):
    """Returns variables for all programs, which share compiled code."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(lab.WORK / "inductor"),
            "TRITON_CACHE_DIR": str(lab.WORK / "triton"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
            "PYTHONWARNINGS": "ignore"}


class Program:
    """A program with commands on its standard input; a thread reads its output."""

    def __init__(self, name, command, environment=None, node=None, submit=()):
        self.name, self.lines, self.node, self.id = name, queue.Queue(), node, None
        log = lab.WORK / f"{name}.err".replace(" ", "-").replace("/", "-")
        self.log = open(log, "ab")
        if node:
            self.submit(command, submit, log)
        else:
            self.child = lab.start(command, env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=self.log)
            self.to, self.source = self.child.stdin.fileno(), self.child.stdout.fileno()
        threading.Thread(target=self.read, daemon=True).start()

    def submit(self, command, options, log):
        """Starts the program as a workload of the node, with FIFOs, which survive a restart."""
        ends = [str(log.with_suffix(suffix)) for suffix in (".in", ".out")]
        for end in ends:
            os.mkfifo(end)
        self.to, self.source = (os.open(end, os.O_RDWR) for end in ends)
        variables = [word for key, value in shared_environment().items()
                     for word in ("--env", f"{key}={value}")]
        self.id = self.node.submit(*options, *variables, "--", "sh", "-c",
                                   'exec "$@" < "$0.in" > "$0.out" 2>> "$0.err"',
                                   str(log.with_suffix("")), *command)

    def read(self):
        rest = b""
        while data := os.read(self.source, 1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.hear(line.decode(errors="replace"))
        self.hear("")

    def hear(self, line):
        self.lines.put(line)

    def tell(self, line):
        os.write(self.to, line.encode() + b"\n")

    def problem(self, what):
        tail = Path(self.log.name).read_text(errors="replace")[-600:]
        more = ""
        if self.node:
            more = f" {self.node.show(self.id)['state']}: {self.node.logs(self.id)[-300:]}"
        return TimeoutError(f"{self.name}: {what}{more}: {tail}")

    def close(self):
        try:
            self.tell("quit")
            if not self.node:
                self.child.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            pass
        if not self.node:
            lab.end(self.child, 3)


class Service(Program):
    def expect(self, seconds, what):
        try:
            line = self.lines.get(timeout=max(1, min(seconds, lab.left_s())))
            return json.loads(line)
        except (queue.Empty, ValueError) as wrong:
            raise self.problem(f"no answer to {what}") from wrong

    def ask(self, line, seconds):
        self.tell(line)
        return self.expect(seconds, line)

    def serve(self, rate, seconds, seed):
        return self.ask(f"serve {rate:.4f} {max(5, round(rate * seconds))} {seed}",
                        seconds * 2 + 30)


class Task(Program):
    """Its windows are kept as (start, end, samples/s)."""

    def __init__(self, *arguments, **options):
        self.windows, self.wants_run, self.state, self.starts = [], False, "started", 0
        self.changed = threading.Condition()
        super().__init__(*arguments, **options)

    def hear(self, line):
        words = line.split()
        with self.changed:
            if words and words[0] == "t":
                self.windows.append((float(words[1]), float(words[2]), float(words[4])))
            elif line in ("loaded", "ready", "paused", ""):
                self.state = line or "ended"
                self.starts += line == "loaded"
                if line == "loaded" and self.starts > 1:  # gpumux has started it again
                    self.tell("run" if self.wants_run else "load\npause")
            self.changed.notify_all()

    def wait_for(self, seconds, *states):
        with self.changed:
            if not self.changed.wait_for(lambda: self.state in (*states, "ended"),
                                         max(1, min(seconds, lab.left_s()))) or \
                    self.state == "ended":
                raise self.problem(f"it is {self.state}, not {states[0]}")

    def run(self):
        self.wants_run, self.state = True, "running"
        self.tell("run")

    def pause(self):
        self.wants_run = False
        self.tell("pause")
        self.wait_for(60, "paused")

    def samples(self, start, end):
        """Returns the number of samples in this time; a window counts by its overlap."""
        return sum(rate * (min(end, e) - max(start, s)) for s, e, rate in list(self.windows)
                   if s < end and e > start)


# ---- the processes of a part ----

class Floor:
    """Starts programs by name and kind, and gives them their surroundings."""

    def __init__(self, options, mps, agent):
        self.options, self.mps, self.agent = options, mps, agent
        self.programs, self.nodes = {}, {}

    def command(self, role, name):
        is_stand_in = lab.EMULATED and not self.options.cpu
        if role == "service":
            program, *more = SERVICES[name] if not is_stand_in else ("service.py",)
            more += ["--raw", "--report", self.options.report, "--library",
                     str(lab.ROOT / "lib/libgpumux.so.0")]
        else:
            program, more = "train.py", list(TASKS[name])
        if self.options.cpu:
            more += ["--tiny", "--device", "cpu"]
        elif is_stand_in and role == "task":
            more += ["--stand-in"]
        return [sys.executable, str(lab.TREE / "workloads" / program), *more]

    def surroundings(self, role, kind):
        variables = shared_environment()
        if kind != "bare":
            variables |= self.mps | {"CUDA_MPS_CLIENT_PRIORITY":
                                     "1" if role == "task" and kind != "plain" else "0"}
        if kind == "half":
            variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "50"
        if kind == "shim":
            variables |= self.agent.variables(f"{role}-{len(self.programs)}")
            # libgpumux only works in workloads; nobody listens to its reports here.
            variables |= {"GPUMUX_WORKLOAD_ID": "1", "GPUMUX_ATTEMPT": "1",
                          "GPUMUX_CONTROL": str(lab.WORK / "nobody")}
        return lab.plain_environment(**variables)

    def begin(self, role, name, kind):
        key = (role, name, kind)
        if key not in self.programs:
            make = Service if role == "service" else Task
            self.programs[key] = make(f"{role} {name} {kind}", self.command(role, name),
                                      environment=self.surroundings(role, kind))
        return self.programs[key]

    def begin_under_gpumux(self, key, service, task, slo):
        """Starts a node of its own for one pair and target."""
        node = self.nodes[key] = lab.Node(*self.options.set)
        name = f"{service}.{task}.{len(self.nodes)}"
        self.programs["service", service, key] = Service(
            f"service {name}", self.command("service", service), node=node,
            submit=("--kind", "service", "--name", f"service-{name}", "--quota",
                    QUOTA["service"], "--slo", slo, "--ready", "started"))
        self.programs["task", task, key] = Task(
            f"task {name}", self.command("task", task), node=node,
            submit=("--name", f"task-{name}", "--quota", QUOTA["task"]))

    def load(self):
        """Lets all started programs load, at the same time."""
        for program in self.programs.values():
            if isinstance(program, Service):
                program.expect(120, "its start")
            else:
                program.wait_for(120, "loaded", "ready")
        for program in self.programs.values():
            program.tell("load")
        for program in self.programs.values():
            if isinstance(program, Service):
                program.expect(180, "load")
            else:
                program.wait_for(180, "ready", "paused")


# ---- measurements ----

def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Pair:
    def __init__(self, number, service, task, load, has_all):
        self.number, self.service, self.task, self.load = number, service, task, load
        self.has_all = has_all
        self.modes = {}  # name: latencies, samples, seconds

    def name(self):
        return f"{self.service} {self.load}% + {self.task}"

    def set_native(self, capacity, latencies, factors):
        self.native = latencies = sorted(latencies)
        self.rate = self.load / 100 * capacity
        self.percent = 99 if len(latencies) >= P99_REQUESTS else 95
        self.native_ms = percentile(latencies, self.percent / 100)
        self.targets = {factor: factor * self.native_ms for factor in factors}
        self.allowed = 1 - self.percent / 100

    def slo(self, factor):
        return f"{self.percent}:{round(self.targets[factor] * 1000)}us"

    def values(self, factor):
        """Returns the placeholders of a setting."""
        def us(part):
            return round(1000 * percentile(self.native, part))
        return {"target_us": round(1000 * self.targets[factor]), "p50_us": us(0.5),
                "p95_us": us(0.95), "p99_us": us(0.99)}

    def add(self, mode, latencies, samples, seconds):
        have = self.modes.setdefault(mode, {"latencies": [], "samples": 0, "seconds": 0})
        have["latencies"] += latencies
        have["samples"] += samples
        have["seconds"] += seconds

    def speed(self, mode):
        """Returns the speed of the task, relative to the task alone."""
        alone = self.modes.get("task alone")
        if mode not in self.modes or not alone or not alone["samples"]:
            return None
        mode = self.modes[mode]
        return mode["samples"] / mode["seconds"] / (alone["samples"] / alone["seconds"])

    def late(self, mode, factor):
        latencies = self.modes[mode]["latencies"]
        return sum(ms > self.targets[factor] for ms in latencies) / max(1, len(latencies))

    def summary(self, mode):
        have = self.modes[mode]
        ordered = sorted(have["latencies"])
        speed = self.speed(mode)
        facts = {"mode": mode, "requests": len(ordered),
                 "task_speed": speed and round(speed, 4)}
        if ordered:
            facts |= {"p50_ms": percentile(ordered, 0.5), "p95_ms": percentile(ordered, 0.95),
                      "p99_ms" if len(ordered) >= P99_REQUESTS else "p99_ms_of_few":
                          percentile(ordered, 0.99),
                      "late": {str(f): round(self.late(mode, f), 5) for f in self.targets}}
        return facts


class Measurement:
    def __init__(self, part, floor, options):
        self.part, self.floor, self.options = part, floor, options
        self.seconds, self.turns = options.seconds, options.turns

    def difference(self, before, after):
        """Returns the counters of the shim that have changed, by process."""
        changes = {}
        for old, new in zip(before, after):
            change = {key: new[key] - old[key] for key in new
                      if isinstance(new[key], int) and isinstance(old.get(key), int)
                      and key not in ("pid", "ended", "state", "outstanding_ns", "shut")
                      and new[key] != old[key]}
            if change and not new["ended"]:
                changes[new["mark"]] = change
        return changes

    def point(self, pair, mode, service, task, turn, commands=(), seconds=None):
        """Measures both side by side. A task or service of None does not run."""
        agent, seconds = self.floor.agent, seconds or self.seconds
        for command in commands:
            agent.tell(command)
        node = task and task.node
        before = agent.counters() if commands else [node.counters(task.id)] if node else []
        facts, latencies = {}, []
        if task:
            task.run()
            time.sleep(self.options.settle)
        if service:
            facts = service.serve(pair.rate, seconds, 1000 * pair.number + turn)
            latencies = facts.pop("latencies_ms")
            start, end = facts["start"], facts["end"]
        else:
            start, end = time.monotonic(), time.monotonic() + seconds
            time.sleep(seconds)
        if commands:
            facts["counters"] = self.difference(before, agent.counters())
        elif node:
            after = node.counters(task.id)
            facts["counters"] = {key: value - before[0].get(key, 0) for key, value in
                                 after.items() if value != before[0].get(key, 0)}
        if task:
            task.pause()
            samples = task.samples(start, end)
            facts |= {"samples_per_s": round(samples / (end - start), 2),
                      "task_starts": task.starts}
        else:
            samples = 0
        if turn:
            pair.add(mode, latencies, samples, end - start)
            self.part.point(pair=pair.name(), mode=mode, turn=turn, **facts)
        return facts

    def native(self, name, pairs):
        """Measures a service alone on the device, in a process of its own."""
        service = self.floor.begin("service", name, "bare")
        service.expect(120, "its start")
        service.ask("load", 180)
        service.ask("capacity 0.5", 30)
        # The lowest counts: the host is slower at times, and the service must not be overloaded.
        rounds = [service.ask("capacity 0.6", 30) for _ in range(5)]
        capacity = min(rounds, key=lambda each: each["per_s"])
        self.part.point(service=name, mode="native, alone, one after the other", **capacity,
                        all_per_s=[each["per_s"] for each in rounds])
        for pair in pairs:
            pair.rate, latencies = pair.load / 100 * capacity["per_s"], []
            for turn in range(1, self.options.turns + 1):
                facts = service.serve(pair.rate, self.seconds, 1000 * pair.number + turn)
                latencies += facts.pop("latencies_ms")
                self.part.point(pair=pair.name(), mode="native alone", turn=turn, **facts)
            pair.add("native alone", latencies, 0, 1)
            pair.set_native(capacity["per_s"], latencies, self.options.factors)
        service.close()
        del self.floor.programs["service", name, "bare"]

    def set_pace(self, pairs_left, points):
        """Plans fewer turns, then shorter points, if the time would not suffice."""
        learning = self.options.learn * len(self.options.factors) if self.options.has_gpumux else 0
        spare = (lab.left_s() - 20) / pairs_left - learning - 3
        self.turns = self.options.turns + 1
        while self.turns > 1:
            self.turns -= 1
            seconds = spare / (points * self.turns) - self.options.settle - POINT_COST_S
            if seconds >= min(POINT_S_MIN, self.options.seconds):
                break
        self.seconds = min(self.options.seconds, seconds)
        lab.say(f"{self.turns} turns of {points} points of {self.seconds:.1f} s")
        return self.seconds >= min(POINT_S_MIN, self.options.seconds)


# ---- the points of a pair ----

def fixed_modes(pair, options):
    """Returns (mode, kind of the service, kind of the task, commands for the registrar)."""
    def gate(us):
        return (*settings_off(), f"window-us {us}", f"gate-us {GATE_US}")
    modes = {"time slices": ("bare", "bare", ()), "MPS, priority": ("mps", "mps", ()),
             "MPS, priority, half": ("mps", "half", ()),
             "strict gate 250": ("shim", "shim", gate(250)), "MPS": ("mps", "plain", ()),
             "strict gate 100": ("shim", "shim", gate(100)),
             "alone beside idle": ("bare", None, ()),
             "alone under MPS": ("shim", None, settings_off())}
    wanted = options.modes
    if wanted is None:
        wanted = list(modes)[:4] + ["alone beside idle"]
        if pair.has_all:
            wanted += ["MPS", "strict gate 100"]
    return [(mode, *modes[mode]) for mode in wanted]


def explored(pair, options):
    """Returns the points of the file of settings, in the same form."""
    points = []
    for line in options.explore:
        name, _, commands = line.partition(":")
        for factor in options.factors if "{target" in commands else options.factors[:1]:
            words = commands.format(**pair.values(factor)).split(";")
            label = name.strip() + (f", target {factor}x" if "{target" in commands else "")
            commands_now = [word.strip() for word in words if word.strip()]
            points.append((label, "shim", "shim", (*settings_off(), *commands_now)))
    return points


def under_gpumux(pair, factor):
    return f"gpumux, target {factor}x"


def begin_programs(floor, pairs, options):
    for pair in pairs:
        for _, service, task, _ in fixed_modes(pair, options) + explored(pair, options):
            floor.begin("service", pair.service, service)
            if task:
                floor.begin("task", pair.task, task)
        floor.begin("task", pair.task, "bare")
        for factor in options.factors if options.has_gpumux else ():
            floor.begin_under_gpumux((pair.number, factor), pair.service, pair.task,
                                     pair.slo(factor))


def describe(part, floor, pair, when):
    """Records gpumux's own account of the pair."""
    for (number, factor), node in floor.nodes.items():
        if number == pair.number:
            part.content.setdefault("described", {})[f"{pair.name()}, {factor}x, {when}"] = [
                node.command("describe", str(program.id)).splitlines() for program in
                floor.programs.values() if program.node is node] + [
                    line for line in node.command("events").splitlines() if "note" in line][-60:]


def measure_pair(measurement, pair, pairs_left):
    floor, options, part = measurement.floor, measurement.options, measurement.part
    points = [("task alone", None, "bare", ())]
    points += fixed_modes(pair, options) + explored(pair, options)
    for factor in options.factors if options.has_gpumux else ():
        key = (pair.number, factor)
        points.append((under_gpumux(pair, factor), key, key, ()))
    if not measurement.set_pace(pairs_left, len(points)):
        part.untested(pair.name(), "no time was left")
        return
    programs = [(mode, service and floor.programs["service", pair.service, service],
                 task and floor.programs["task", pair.task, task], commands)
                for mode, service, task, commands in points]
    for mode, service, task, commands in programs:
        if mode.startswith("gpumux"):
            learned = measurement.point(pair, mode, service, task, 0, seconds=options.learn)
            part.point(pair=pair.name(), mode=mode, learning=True, **learned)
            describe(part, floor, pair, "after learning")
    for turn in range(1, measurement.turns + 1):
        first = turn % len(programs)
        for mode, service, task, commands in programs[first:] + programs[:first]:
            measurement.point(pair, mode, service, task, turn, commands)
    describe(part, floor, pair, "at the end")


# ---- judging ----

def judge(pair, factor):
    """Returns the row of one pair and target.

    A fixed mode keeps the target if at most KEEPS of the allowed part of the requests is late.
    Where one does, gpumux must not exceed FAILS of the allowed part, and must give the task SPEED
    of the speed of the fastest such mode. Where none does, gpumux may have FEWEST of the late
    requests of the mode with the fewest, at SPEED of its task speed. At the loosest target the
    task must not be slower than behind the strict gate.
    """
    fixed = {mode: (pair.late(mode, factor), pair.speed(mode)) for mode in pair.modes
             if not mode.startswith(("gpumux", "task", "alone", "native"))
             and (", target " not in mode or mode.endswith(f", target {factor}x"))}
    mine = under_gpumux(pair, factor)
    keeping = [mode for mode, (late, _) in fixed.items() if late <= KEEPS * pair.allowed]
    row = {"pair": pair.name(), "target": factor, "target_ms": round(pair.targets[factor], 4),
           "percentile": pair.percent, "allowed": pair.allowed,
           "modes": {mode: {"late": round(late, 5), "speed": speed and round(speed, 4)}
                     for mode, (late, speed) in fixed.items()},
           "keeping": keeping,
           "alone": {mode: {"late": round(pair.late(mode, factor), 5)} for mode in pair.modes
                     if mode.startswith(("native", "alone"))}}
    best = max(keeping, key=lambda mode: fixed[mode][1] or 0) if keeping else \
        min(fixed, key=lambda mode: fixed[mode][0], default=None)
    row["best"] = best
    if mine not in pair.modes or best is None:
        return row | {"held": None}
    late, speed = pair.late(mine, factor), pair.speed(mine)
    row |= {"gpumux": {"late": round(late, 5), "speed": round(speed, 4)},
            "speed_ratio": round(speed / fixed[best][1], 4) if fixed[best][1] else None}
    wrong = []
    if keeping and late > FAILS * pair.allowed:
        wrong.append("late")
    if not keeping and late > FEWEST * fixed[best][0]:
        wrong.append("later than the best mode")
    if speed < SPEED * (fixed[best][1] or 0):
        wrong.append("task")
    gate = fixed.get("strict gate 250", (0, 0))[1] or 0
    if factor == max(pair.targets) and speed < gate:
        wrong.append("slower than the gate")
    return row | {"held": not wrong, "wrong": wrong}


def percent(value):
    return "-" if value is None else f"{100 * value:.2f}"


def print_rows(rows):
    for row in rows:
        limit = f"p{row['percentile']} <= {row['target_ms']:.2f} ms"
        print(f"\n{row['pair']}, {row['target']}x alone: {limit}, late allowed "
              f"{percent(row['allowed'])} %", flush=True)
        for mode, facts in row.get("alone", {}).items():
            print(f"  {mode:34} late {percent(facts['late']):>6} %")
        for mode, facts in row["modes"].items():
            marks = ("keeps" if mode in row["keeping"] else "") + \
                (" <- best" if mode == row["best"] else "")
            print(f"  {mode:34} late {percent(facts['late']):>6} %  task "
                  f"{percent(facts['speed']):>6} %  {marks}")
        if "gpumux" in row:
            mine = row["gpumux"]
            print(f"  {'gpumux':34} late {percent(mine['late']):>6} %  task "
                  f"{percent(mine['speed']):>6} %  {row['speed_ratio']} of the best: "
                  f"{'held' if row['held'] else 'LOST: ' + ', '.join(row['wrong'])}")
    judged = [row for row in rows if row["held"] is not None]
    print(f"\n{sum(row['held'] for row in judged)} of {len(judged)} held", flush=True)


def record(part, pairs):
    """Writes the summaries and the verdicts."""
    part.content["pairs"] = [
        {"pair": pair.name(), "service": pair.service, "task": pair.task, "load": pair.load,
         "rate": pair.rate, "percentile": pair.percent, "native_ms": pair.native_ms,
         "modes": [pair.summary(mode) for mode in pair.modes]}
        for pair in pairs if hasattr(pair, "targets")]
    part.content["rows"] = [judge(pair, factor) for pair in pairs if "task alone" in pair.modes
                            for factor in pair.targets]
    part.write()


# ---- main ----

def options_of():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="", help="1 to 4")
    parser.add_argument("--pairs", help="numbers, comma-separated, in place of a part's")
    parser.add_argument("--explore", help="file of registrar settings; without gpumux's node")
    parser.add_argument("--modes", help="fixed modes, separated by semicolons; '': none")
    parser.add_argument("--factors", default="", help="targets relative to the service alone")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of a point, at most")
    parser.add_argument("--learn", type=float, default=20, help="seconds before gpumux's points")
    parser.add_argument("--settle", type=float, default=0.5, help="the task runs before a point")
    parser.add_argument("--report", default="requests", help="requests, latency or none")
    parser.add_argument("--set", action="append", default=[], help="a setting of gpumux's node")
    parser.add_argument("--no-gpumux", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="tiny networks on the processor")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", nargs="+", help="prints the table of results already there")
    options = parser.parse_args()
    options.has_gpumux = not options.explore and not options.no_gpumux
    options.factors = [float(f) for f in options.factors.split(",")] if options.factors else \
        list(FACTORS)
    if options.modes is not None:
        options.modes = [m.strip() for m in options.modes.split(";") if m.strip()]
    elif options.explore:
        options.modes = ["time slices", "MPS, priority", "strict gate 250", "alone under MPS"]
    lines = Path(options.explore).read_text().splitlines() if options.explore else []
    options.explore = [line for line in lines if ":" in line and not line.startswith("#")]
    for command in ";".join(line.partition(":")[2] for line in options.explore).split(";"):
        if command.strip() and not registrar_knows(command.split()[0]):
            parser.error(f"tests/shim/registrar.c has no command \"{command.split()[0]}\"")
    return options


def list_pairs():
    for number, (service, task, load, has_all) in enumerate(PAIRS, 1):
        part = next(name for name, numbers in PARTS.items() if number in numbers)
        print(f"{number:2}  part {part}  {service} at {load} % beside {task}"
              f"{', all fixed modes' if has_all else ''}")


class Registrar(lab.Agent):
    def tell(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()


def warm_caches(floor, pairs):
    """Compiles what tasks compile, in processes that end before anything is measured."""
    names = {pair.task for pair in pairs if "--compile" in TASKS[pair.task]}
    if lab.EMULATED and not floor.options.cpu:
        return
    tasks = [Task(f"compiler of {name}", floor.command("task", name),
                  environment=lab.plain_environment(**shared_environment(8))) for name in names]
    for task in tasks:
        task.tell("load")
    for task in tasks:
        task.wait_for(240, "ready")
        task.close()


def main():
    options = options_of()
    if options.list:
        list_pairs()
        return 0
    if options.table:
        print_rows([row for file in options.table
                    for row in json.loads(Path(file).read_text()).get("rows", [])])
        return 0
    numbers = [int(n) for n in options.pairs.split(",")] if options.pairs else \
        PARTS[options.part or "1"]
    pairs = [Pair(number, *PAIRS[number - 1]) for number in numbers]
    name = "explore" if options.explore else f"matrix-{options.part or '-'.join(map(str, numbers))}"
    part = lab.Part(name, "services beside tasks: " + "; ".join(p.name() for p in pairs),
                    "bench/gpu/matrix.sh " + " ".join(sys.argv[1:]), kind="")
    part.content["settings"] = options.explore
    agent = Registrar("r")
    with lab.mps() as mps:
        floor = Floor(options, mps, agent)
        measurement = Measurement(part, floor, options)
        warm_caches(floor, pairs)
        lab.say("native")
        for service in dict.fromkeys(pair.service for pair in pairs):
            measurement.native(service, [p for p in pairs if p.service == service])
        lab.say("starting the programs")
        begin_programs(floor, pairs, options)
        floor.load()
        memory = lab.output_of("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader")
        lab.say(f"{len(floor.programs)} programs are ready; device memory in use: {memory}")
        part.content |= {"programs": len(floor.programs), "memory_used": memory}
        for number, pair in enumerate(pairs):
            measure_pair(measurement, pair, len(pairs) - number)
            record(part, pairs)
        print_rows(part.content["rows"])
        for program in floor.programs.values():
            program.tell("quit")
    agent.close()
    part.content["complete"] = True
    part.write()
    measured = all(pair.speed(mode) for pair in pairs for mode in pair.modes
                   if mode.startswith(("task", "strict")))
    return 0 if measured and not part.content["untested"] else 1


if __name__ == "__main__":
    sys.exit(main())

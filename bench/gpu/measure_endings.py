"""Tasks that end in every way while their queue is deep, and the effect on their neighbours.

measure_endings.py burn KIND...   200 of each kind, many at a time, with gpumux-burn: half of them
                                  beside tasks, half beside services as well
measure_endings.py torch KIND...  5 of each kind, all at a time, with PyTorch

Kinds: SIGTERM, SIGINT, SIGHUP, SIGKILL, cancel, oom (the kernel's out-of-memory killer), exit (by
itself, with a deep queue).
"""

import argparse
import contextlib
import datetime
import random
import signal
import sys
import threading
import time
from pathlib import Path

import lab

KINDS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGKILL", "cancel", "oom", "exit")
GRACEFUL = {"SIGTERM", "SIGINT", "SIGHUP", "cancel", "exit"}
LIMIT_MS = 2000
COUNT = {"burn": 200, "torch": 5}
VICTIMS = {"burn": 12, "torch": 5}  # at a time
DEEP = {"burn": 4, "torch": 40}  # launches that fill the queue, so that launches are held
DEEP_S_MAX = {"burn": 20, "torch": 60}
CGROUPS = Path("/sys/fs/cgroup")


# ---- the kernel's out-of-memory killer ----

class MemoryGroup:
    """A cgroup for the node that limits the memory of each attempt. make() returns None without
    one."""

    @staticmethod
    def make():
        group = MemoryGroup()
        group.path = CGROUPS / f"gpumux-endings-{lab.os.getpid()}"
        control = CGROUPS / "cgroup.subtree_control"
        try:
            group.is_ours = "memory" not in control.read_text().split()
            if group.is_ours:
                control.write_text("+memory")
            group.path.mkdir()
            (group.path / "cgroup.subtree_control").write_text("+memory")
            return group
        except OSError:
            with contextlib.suppress(OSError):
                group.path.rmdir()
            return None

    def cover(self):
        """To be called when the node is up. Returns whether attempts get their own limits."""
        try:
            for node in self.path.glob("gpumux-*"):
                (node / "cgroup.subtree_control").write_text("+memory")
            return True
        except OSError:
            return False

    def kill(self, pid):
        """Returns whether the kernel killed the process."""
        attempt = self.path
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                attempt = (CGROUPS / line[4:]).parent
        limit = attempt / "memory.max"
        if not limit.exists() or attempt == self.path:
            return False
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        used = int((attempt / "memory.current").read_text())
        for part in (2, 4, 16):
            # The cgroup disappears with its last process, and its counters with it. No other party
            # ends the process, so its end shows that the kernel did.
            with contextlib.suppress(OSError):
                limit.write_text(str(used // part))
            end_s = time.monotonic() + 0.5
            while lab.is_alive(pid) and time.monotonic() < end_s:
                time.sleep(0.002)
            if not lab.is_alive(pid):
                return True
        with contextlib.suppress(OSError):
            limit.write_text("max")
        return False

    def remove(self):
        end_s = time.monotonic() + 5
        while time.monotonic() < end_s:
            with contextlib.suppress(OSError):
                for folder in sorted(self.path.rglob("*"), reverse=True):
                    if folder.is_dir():
                        folder.rmdir()
                self.path.rmdir()
                break
            time.sleep(0.1)
        if self.is_ours:
            with contextlib.suppress(OSError):
                (CGROUPS / "cgroup.subtree_control").write_text("-memory")


# ---- neighbours ----

class Neighbours:
    """Workloads that must run on. A workload is lost when its process has gone."""

    def __init__(self, node, program):
        self.node, self.program, self.members, self.losses = node, program, {}, 0

    def add(self, kind):
        options = ["--kind", kind, "--quota", "2g", "--retries", "1000"]
        command = [lab.BURN, "--service", "--rate", "50", "--kernel-ms", "1", "--sm", "10"]
        if kind == "task":
            command = [lab.BURN, "--step-ms", "20", "--busy-percent", "50", "--sm", "10"]
        if self.program == "torch":
            options[3] = "8g"
            command = victim_command("torch", "neighbour")
        member = lab.Workload(self.node, options, command)
        self.members[member.id] = (member, member.pid(),
                                   self.node.wait_state(member.id, "running")["attempt"])

    def settle(self, seconds=60):
        """Waits until all run and have launched kernels; records their processes again."""
        for number, (member, _, _) in list(self.members.items()):
            lab.wait_until(f"neighbour {number} works",
                           lambda n=number: self.node.counters(n).get("launches_kernel", 0) > 3,
                           seconds)
            self.members[number] = (member, member.pid(), self.node.show(number)["attempt"])

    def count_lost(self):
        """Returns the workloads that were lost, and records the present processes."""
        lost = []
        for number, (_, pid, attempt) in self.members.items():
            now = self.node.show(number)
            if not lab.is_alive(pid) or now["attempt"] != attempt or now["state"] != "running":
                lost.append({"workload": number, "kind": now["kind"], "state": now["state"],
                             "text": now["text"],
                             "attempts": [a["text"] for a in now["attempts"]][-3:]})
        if lost:
            self.losses += len(lost)
            with contextlib.suppress(TimeoutError):
                self.settle()
        return lost


# ---- victims ----

def victim_command(program, kind):
    if program == "torch" and lab.EMULATED:
        program = "burn"
    if program == "torch":
        options = {"exit": ["--exit-after", "2"], "neighbour": ["--light"]}.get(kind, [])
        return [sys.executable, str(lab.TREE / "bench/gpu/deep_queue.py"), *options]
    # The device completes 50 a second, so the queue of a victim grows.
    rate = "20" if kind == "neighbour" else "2000"
    return [lab.BURN, "--service", "--rate", rate, "--kernel-ms", "20", "--sm", "5",
            "--memory", "64m", *(["--requests", "30", "--leave-queue"] if kind == "exit" else [])]


class Endings:
    """Ends victims of one kind, several at a time, and records the results."""

    def __init__(self, node, program, kind, group):
        self.node, self.program, self.kind, self.group = node, program, kind, group
        self.lock = threading.Lock()
        self.times_ms, self.problems, self.how = [], [], kind
        self.left = self.ended = 0

    def is_deep(self, number):
        launches = self.node.counters(number).get("launches_kernel", 0)
        return launches >= DEEP["burn" if lab.EMULATED else self.program]

    def since_last_word_ms(self, victim):
        """Returns the time since the last line, which a victim prints just before its exit."""
        now = time.time()
        line = self.node.command("logs", "--stdout", "-t", str(victim.id)).splitlines()[-1]
        said = datetime.datetime.fromisoformat(line.split()[0][:26].rstrip("Z") + "+00:00")
        return max(0, now - said.timestamp()) * 1000

    def end_one(self):
        victim = lab.Workload(self.node, ["--quota", "8g" if self.program == "torch" else "2g"],
                              victim_command(self.program, self.kind))
        try:
            watch = lab.Stopwatch(victim.pid())
        except ProcessLookupError:
            if self.kind != "exit":
                raise
            with self.lock:
                self.ended += 1  # ended before its pid was read
            return
        try:
            if self.kind != "exit":
                lab.wait_until(f"the queue of {victim.id} is deep", lambda: self.is_deep(victim.id),
                               DEEP_S_MAX[self.program])
                time.sleep(random.uniform(0, 0.8))
            begun = time.monotonic()
            if self.kind == "cancel":
                self.node.cancel(victim.id)
            elif self.kind == "oom":
                is_killed = False
                with contextlib.suppress(OSError):
                    is_killed = self.group and self.group.kill(watch.pid)
                if not is_killed:
                    self.how = "SIGKILL in place of the kernel's: no memory cgroup is to be had"
                    watch.send(signal.SIGKILL)
            elif self.kind != "exit":
                watch.send(getattr(signal, self.kind))
            if not watch.wait(30):
                raise TimeoutError(f"workload {victim.id} does not end")
            spent_ms = (time.monotonic() - begun) * 1000
            if self.kind == "exit":
                spent_ms = self.since_last_word_ms(victim)
            with self.lock:
                self.ended += 1
                self.times_ms.append(spent_ms)
        finally:
            watch.close()
            # A killed task would be retried and be one more client of MPS, which accepts 60.
            self.node.cancel(victim.id)

    def work(self):
        while True:
            with self.lock:
                if self.left == 0:
                    return
                self.left -= 1
            try:
                self.end_one()
            except Exception as problem:  # one failure must not end the others
                with self.lock:
                    self.problems.append(str(problem)[:300])

    def run(self, count, at_a_time):
        self.left = count
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(at_a_time)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(1, lab.left_s() - 5))


def measure_kind(part, node, neighbours, program, kind, setting, count, group):
    endings = Endings(node, program, kind, group)
    begun = time.monotonic()
    endings.run(count, min(VICTIMS[program], count))
    time.sleep(0.3)
    lost = neighbours.count_lost()
    times = sorted(endings.times_ms)
    part.point(program=program, kind=kind, how=endings.how, setting=setting, ended=endings.ended,
               neighbours=len(neighbours.members), neighbours_lost=len(lost), lost=lost,
               median_ms=lab.median(times) if times else None,
               max_ms=times[-1] if times else None,
               over_2_s=sum(t > LIMIT_MS for t in times),
               problems=endings.problems[:5], problem_count=len(endings.problems),
               seconds=round(time.monotonic() - begun, 1))
    return endings.ended, len(lost), times if kind in GRACEFUL else [], len(endings.problems)


def measure(part, program, kinds, count):
    group = MemoryGroup.make() if "oom" in kinds else None
    # A workload lost without its own fault becomes a suspect and waits: here only briefly.
    node = lab.Node("fault_probation=1s", "backoff_min=2s",
                    *([f"cgroup={group.path}"] if group else []))
    if group and not group.cover():
        part.untested("the kernel's out-of-memory killer",
                      "the memory of attempts has no limits here")
    neighbours = Neighbours(node, program)
    for _ in range(2):
        neighbours.add("task")
    settings = ["beside a service"]
    if program == "burn":
        settings = ["beside tasks", "beside services and tasks"]
    totals = {kind: [0, 0, [], 0] for kind in kinds}
    for i, setting in enumerate(settings):
        if i > 0 or program == "torch":
            neighbours.add("service")
        neighbours.settle()
        lab.say(f"{len(neighbours.members)} neighbours work")
        for kind in kinds:
            if lab.left_s() < 20:
                part.untested(f"{kind}, {setting}", "the time was over")
                continue
            ended, lost, times, problems = measure_kind(part, node, neighbours, program, kind,
                                                        setting, count // len(settings), group)
            total = totals[kind]
            total[0] += ended
            total[1] += lost
            total[2] += times
            total[3] += problems
            part.bar(f"{program}: ended by {kind}, neighbours lost", f"0 of {count} times",
                     f"{total[1]} in {total[0]}", total[1] == 0 and total[0] > 0 and total[3] == 0,
                     endings=total[0], problems=total[3])
            if total[2]:
                part.bar(f"{program}: ended by {kind}, longest time", f"<= {LIMIT_MS} ms",
                         f"{max(total[2]):.0f} ms", max(total[2]) <= LIMIT_MS,
                         median_ms=lab.median(total[2]))
    node.close()
    if group:
        group.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=("burn", "torch"))
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--name", required=True)
    parser.add_argument("--count", type=int, default=int(lab.os.environ.get("ENDINGS", 0)))
    options = parser.parse_args()
    part = lab.Part(options.name, "tasks ended in every way with a deep queue of 20 ms kernels, "
                    f"{options.program}")
    measure(part, options.program, options.kinds, options.count or COUNT[options.program])
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

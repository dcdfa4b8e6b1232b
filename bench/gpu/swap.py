"""swap.py: a service grows on a full device beside a swappable task. swap.sh explains the bars and
runs this program."""

import argparse
import sys
import time

import lab
from matrix import Service, Task

GIB = 1 << 30
SIZES = (1.25, 0.25) if lab.EMULATED else (40, 8)  # GiB of the task; by which the service grows
ANSWER_S, BACK_S, SPEED = 1.0, 5.0, 0.95
BASE_S, AWAY_S, STEADY = 6, 4, 3  # STEADY: windows at full speed in a row


class Trainer(Task):
    """A task that also verifies its data."""

    changed_pieces = None

    def hear(self, line):
        if line.startswith("verified "):
            with self.changed:
                self.changed_pieces = int(line.split()[1])
                self.changed.notify_all()
        else:
            super().hear(line)

    def verify(self):
        self.changed_pieces = None
        self.tell("verify")
        with self.changed:
            if not self.changed.wait_for(lambda: self.changed_pieces is not None, 60):
                raise self.problem("did not verify its data")
        return self.changed_pieces

    def speed(self, start, end):
        return self.samples(start, end) / (end - start)

    def back_at(self, after, speed, seconds):
        """Returns when the task has its speed again, for several windows in a row."""
        def steady():
            later = [w for w in list(self.windows) if w[0] >= after]
            for i in range(len(later) - STEADY + 1):
                row = later[i:i + STEADY]
                if self.speed(row[0][0], row[-1][1]) >= speed:
                    return row[0][0]
            return None
        return lab.wait_until("the task is back", steady, seconds)


def command(role):
    program = str(lab.TREE / "bench/gpu/swap_program.py")
    return [sys.executable, program, role, str(SIZES[0])] + ["--stand-in"] * lab.EMULATED


def start(node, size_bytes):
    slack = 1 if lab.EMULATED else 4
    task = Trainer("swap-task", command("task"), node=node,
                   submit=("--swappable", "--quota", f"{round(SIZES[0] + slack)}g"))
    task.wait_for(90, "ready")
    # More than the device has left, so that only the device limits the service.
    quota = round(size_bytes / GIB - SIZES[0] / 2)
    service = Service("swap-service", command("service"), node=node,
                      submit=("--kind", "service", "--quota", f"{quota}g", "--ready", "started"))
    service.expect(90, "its start")
    return task, service


def measure(part, task, service, number):
    begun = time.monotonic()
    time.sleep(BASE_S)
    base = task.speed(begun, begun + BASE_S - 1)
    grown = service.ask(f"grow {SIZES[1]}", 30)
    time.sleep(AWAY_S)
    freed = service.ask("free", 30)
    back = task.back_at(freed["end"], SPEED * base, 40) - freed["end"]
    changed = task.verify()
    facts = {"round": number, "samples_per_s_before": round(base, 1),
             "answer_s": round(grown["seconds"], 3), "failed": grown.get("failed", ""),
             "back_s": round(back, 3), "changed_pieces": changed,
             "samples_per_s_away": round(task.speed(grown["end"] + 1, grown["end"] + AWAY_S), 1)}
    part.point(**facts)
    return facts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    part = lab.Part("swap", "a service grows on a full device beside a swappable task", kind="")
    part.content["command"] = "bench/gpu/swap.sh"
    node = lab.Node()
    task, service = start(node, node.device()["memory_bytes"])
    loaded = service.ask("load", 120)
    part.point(service="load", task_gib=SIZES[0], grow_gib=SIZES[1], **loaded)
    rounds = [measure(part, task, service, i + 1) for i in range(options.rounds)]
    counters = {role: {name: value for name, value in node.counters(program.id).items()
                       if value and name.startswith(("swap_", "room_", "held_swap"))}
                for role, program in (("task", task), ("service", service))}
    part.point(counters=counters)
    states = [node.show(program.id) for program in (task, service)]
    failures = sum(bool(r["failed"]) for r in rounds) + sum(r["changed_pieces"] for r in rounds) + \
        sum(s["state"] != "running" or len(s["attempts"]) > 1 for s in states)
    moved = counters["task"].get("swap_moves_out", 0)
    answer, back = max(r["answer_s"] for r in rounds), max(r["back_s"] for r in rounds)
    part.bar("failures", "none, in the service, the task and its data", failures, failures == 0)
    part.bar("moves of the task's memory", f"{len(rounds)} or more", moved, moved >= len(rounds))
    part.bar(f"slowest answer to an allocation of {SIZES[1]} GiB", f"<= {ANSWER_S} s", answer,
             answer <= ANSWER_S)
    part.bar("slowest return of the task to 95 % of its speed", f"<= {BACK_S} s", back,
             back <= BACK_S)
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

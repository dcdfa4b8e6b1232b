"""A training step alone: native, under gpumux with all that it does, and with gate and window armed, alternating.

All processes of a generation are there from its beginning and take turns; those that wait use nothing of the device.
A turn is short and each thread's core is the same in all of them (steps.py): what a core of a shared machine is worth
differs by more than what is measured here, from core to core and from second to second. A generation's processes may be
a little faster or slower than another's for reasons of their own, so there are several.
"""

import json
import subprocess
import sys

import lab

GENERATIONS, ROUNDS, STEPS = 3, 30, 4
MODELS = (("resnet50", 128), ("bert", 32))
VARIANTS = ("native", "gpumux", "armed")
LIMIT = 1.01


def command_of(model, batch):
    cores = lab.same_cores(3)
    return [sys.executable, str(lab.TREE / "bench/gpu/steps.py"), "--model", model, "--batch", str(batch),
            *(["--cores", ",".join(map(str, cores))] if cores else []), *(["--fake"] if lab.EMULATED else [])]


def begin(node, agent, model, batch, variant):
    command = command_of(model, batch)
    log = str(lab.WORK / f"{model}-{variant}.log")
    if variant == "gpumux":
        return lab.Talker([lab.GPUMUX, "run", "--quota", "40g", "--directory", str(node.directory), "--", *command],
                          node.environment, log)
    limits = agent.variables("task") if variant == "armed" else {}
    return lab.Talker(command, lab.plain_environment(**limits), log)


def report(part, ratios, host_ratios):
    for (model, variant), values in ratios.items():
        low, high = lab.median_interval(values)
        ratio = lab.median(values)
        is_bar = variant == "gpumux"
        what = "gpumux run, through MPS, all protection on" if is_bar else \
            "window of 250 us and gate armed beside an idle service, without MPS"
        part.bar(f"{model} training step, alone, {what}", f"<= {LIMIT}x native" if is_bar else "for information",
                 f"{ratio:.4f}x ({low:.4f} to {high:.4f})", ratio <= LIMIT if is_bar else None, ratio=ratio,
                 interval95=[low, high], pairs=len(values),
                 host_ratio=lab.median(host_ratios[model, variant]))  # processor time of all threads


def report_counters(part, node, agent):
    for process in agent.counters():
        if process["mark"] == "task" and not process["ended"]:
            part.point(counters_of="armed", counters=process)
    for workload in node.api("GET", "/v1/workloads?limit=100&state=running")["workloads"]:
        part.point(counters_of="gpumux", counters=node.counters(workload["id"]))


def measure_generation(part, node, agent, generation, ratios, host_ratios):
    talkers = {(model, variant): begin(node, agent, model, batch, variant)
               for model, batch in MODELS for variant in VARIANTS}
    for key, talker in talkers.items():
        if talker.read(120) != "ready":
            raise OSError(f"{key} does not start")
    lab.say(f"generation {generation}: {len(talkers)} processes are ready")
    for model, _ in MODELS:
        for i in range(ROUNDS):
            times, host = {}, {}
            for variant in VARIANTS[i % 3:] + VARIANTS[:i % 3]:
                answer = json.loads(talkers[model, variant].ask(f"steps {STEPS}", 60))
                times[variant], host[variant] = answer["ms"], answer["host_ms"]
            part.point(model=model, generation=generation, round=i, step_ms=times, host_ms=host,
                       **{v: round(times[v], 3) for v in VARIANTS})
            for variant in VARIANTS[1:]:
                ratios.setdefault((model, variant), []).append(times[variant] / times["native"])
                host_ratios.setdefault((model, variant), []).append(host[variant] / host["native"])
        report(part, ratios, host_ratios)
    if generation == GENERATIONS - 1:
        report_counters(part, node, agent)
    for talker in talkers.values():
        talker.child.stdin.close()
    for talker in talkers.values():
        lab.end(talker.child)


def main():
    part = lab.Part("steps", "a training step alone under gpumux, native ones alternating with it")
    node = lab.Node()
    agent = lab.Agent("a", quota_bytes=64 * lab.GIB, window_us=250, gate_us=20000)
    service = lab.start([lab.BURN, "--service", "--rate", "0.01", "--kernel-ms", "0.01"],
                        env=lab.plain_environment(**agent.variables("service")), stdout=subprocess.DEVNULL)
    ratios, host_ratios = {}, {}
    for generation in range(GENERATIONS):
        if generation > 0 and lab.left_s() < 70:
            lab.say("no time is left for another generation")
            break
        measure_generation(part, node, agent, generation, ratios, host_ratios)
    lab.end(service)
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

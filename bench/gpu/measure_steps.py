"""A training step alone: native, under gpumux, and with gate and window armed, alternating.

All processes of a generation live at the same time and take turns; waiting processes do not use the
device. A thread has the same core in all processes (steps.py), because on a shared machine the
speed of a core differs between cores and from second to second by more than the cost measured here.
For the same reason a model that waits for its host has many short turns, and the two of a pair
follow each other. Processes of one generation may be slightly faster or slower for reasons of their
own, so there are several generations. The processes of a generation start at the same time and
disturb each other, so they measure their kernels again before anything counts. Python's hash seed
is the same in all of them.
"""

import json
import subprocess
import sys

import lab

GENERATIONS, SETTLE_STEPS = 4, 40
# Batch size, rounds, steps of a turn.
MODELS = {"resnet50": (128, 16, 4), "bert": (32, 160, 1)}
VARIANTS = ("native", "gpumux", "armed")
ARMED_EVERY = 8  # rounds
LIMIT = 1.01
ALIKE = {"PYTHONHASHSEED": "0"}  # environment of all processes


def command_of(model, batch):
    cores = lab.same_cores(3)
    return [sys.executable, str(lab.TREE / "bench/gpu/steps.py"), "--model", model,
            "--batch", str(batch), *(["--cores", ",".join(map(str, cores))] if cores else []),
            *(["--fake"] if lab.EMULATED else [])]


def begin(node, agent, model, batch, variant):
    command = command_of(model, batch)
    log = str(lab.WORK / f"{model}-{variant}.log")
    if variant == "gpumux":
        return lab.Talker([lab.GPUMUX, "run", "--quota", "40g", "--directory", str(node.directory),
                           "--", *command], node.environment | ALIKE, log)
    limits = agent.variables("task") if variant == "armed" else {}
    return lab.Talker(command, lab.plain_environment(**ALIKE, **limits), log)


def report(part, ratios, host_ratios):
    for (model, variant), values in ratios.items():
        low, high = lab.median_interval(values)
        ratio = lab.median(values)
        is_bar = variant == "gpumux"
        what = "gpumux run, through MPS, all protection on" if is_bar else \
            "window of 250 us and gate armed beside an idle service, without MPS"
        part.bar(f"{model} training step, alone, {what}",
                 f"<= {LIMIT}x native" if is_bar else "for information",
                 f"{ratio:.4f}x ({low:.4f} to {high:.4f})", ratio <= LIMIT if is_bar else None,
                 ratio=ratio, interval95=[low, high], pairs=len(values),
                 host_ratio=lab.median(host_ratios[model, variant]))  # CPU time of all threads


def report_counters(part, node, agent):
    for process in agent.counters():
        if process["mark"] == "task" and not process["ended"]:
            part.point(counters_of="armed", counters=process)
    for workload in node.api("GET", "/v1/workloads?limit=100&state=running")["workloads"]:
        part.point(counters_of="gpumux", counters=node.counters(workload["id"]))


def measure_round(talkers, model, steps, variants, ratios, host_ratios):
    """Runs a turn of each variant. Returns the answers by variant."""
    answers = {v: json.loads(talkers[model, v].ask(f"steps {steps}", 60)) for v in variants}
    for variant in set(variants) - {"native"}:
        for key, collected in (("ms", ratios), ("host_ms", host_ratios)):
            ratio = answers[variant][key] / answers["native"][key]
            collected.setdefault((model, variant), []).append(ratio)
    return answers


def measure_model(part, talkers, model, generation, ratios, host_ratios):
    _, rounds, steps = MODELS[model]
    taken = {variant: [] for variant in VARIANTS}
    for i in range(rounds):
        variants = ("native", "gpumux") if i % 2 == 0 else ("gpumux", "native")
        if i % ARMED_EVERY == 0:
            variants += ("armed",)
        answers = measure_round(talkers, model, steps, variants, ratios, host_ratios)
        for variant, answer in answers.items():
            taken[variant].append(answer)
    part.point(model=model, generation=generation, steps_of_a_turn=steps, turns={
        f"{variant}_{key}": " ".join(f"{answer[key]:.3f}" for answer in answers)
        for variant, answers in taken.items() for key in ("ms", "host_ms")})
    for variant in VARIANTS:
        lab.say(f"{model}, {variant}: {lab.median([a['ms'] for a in taken[variant]]):.2f} ms")


def measure_generation(part, node, agent, generation, ratios, host_ratios):
    talkers = {(model, variant): begin(node, agent, model, batch, variant)
               for model, (batch, _, _) in MODELS.items() for variant in VARIANTS}
    for key, talker in talkers.items():
        if talker.read(120) != "ready":
            raise OSError(f"{key} does not start")
    lab.say(f"generation {generation}: {len(talkers)} processes are ready")
    for talker in talkers.values():
        talker.ask(f"steps {SETTLE_STEPS}", 60)
    for model in MODELS:
        measure_model(part, talkers, model, generation, ratios, host_ratios)
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
                        env=lab.plain_environment(**agent.variables("service")),
                        stdout=subprocess.DEVNULL)
    ratios, host_ratios = {}, {}
    for generation in range(GENERATIONS):
        if generation > 0 and lab.left_s() < 90:
            lab.say("no time is left for another generation")
            break
        measure_generation(part, node, agent, generation, ratios, host_ratios)
    lab.end(service)
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

"""A training step alone: native, under gpumux with all that it does, and with gate and window armed, alternating.

All processes of a generation are there from its beginning and take turns; those that wait use nothing of the device.
Each thread's core is the same in all of them (steps.py): what a core of a shared machine is worth differs by more than what
is measured here, from core to core and from second to second. So the turns of a model that waits for its host are short
and many, and the two of a pair follow each other. A generation's processes may be a little faster or slower than
another's for reasons of their own, so there are several. They begin at the same time and disturb each other; what
is known of their kernels since then is found again before anything counts. Python hashes alike in all of them.
"""

import json
import subprocess
import sys

import lab

GENERATIONS, SETTLE_STEPS = 4, 40
# Batch, rounds, steps of a turn.
MODELS = {"resnet50": (128, 16, 4), "bert": (32, 160, 1)}
VARIANTS = ("native", "gpumux", "armed")
ARMED_EVERY = 8  # rounds
LIMIT = 1.01
ALIKE = {"PYTHONHASHSEED": "0"}  # of the environment
TICKS = lab.TREE / "build/release/lib/libgpumux-cuda-ticks.so"  # carried along with the bundle
INSIDE_STEPS = 100


def command_of(model, batch):
    cores = lab.same_cores(3)
    return [sys.executable, str(lab.TREE / "bench/gpu/steps.py"), "--model", model, "--batch", str(batch),
            *(["--cores", ",".join(map(str, cores))] if cores else []), *(["--fake"] if lab.EMULATED else [])]


def begin(node, agent, model, batch, variant):
    command = command_of(model, batch)
    log = str(lab.WORK / f"{model}-{variant}.log")
    if variant == "gpumux":
        return lab.Talker([lab.GPUMUX, "run", "--quota", "40g", "--directory", str(node.directory), "--", *command],
                          node.environment | ALIKE, log)
    limits = agent.variables("task") if variant == "armed" else {}
    return lab.Talker(command, lab.plain_environment(**ALIKE, **limits), log)


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


def measure_round(talkers, model, steps, variants, ratios, host_ratios):
    """A turn of each; the answers by variant."""
    answers = {v: json.loads(talkers[model, v].ask(f"steps {steps}", 60)) for v in variants}
    for variant in set(variants) - {"native"}:
        for key, collected in (("ms", ratios), ("host_ms", host_ratios)):
            collected.setdefault((model, variant), []).append(answers[variant][key] / answers["native"][key])
    return answers


def held_ms(agent):
    """For which launches waited until the device had done enough of those before."""
    return sum(process["held_window_ns"] for process in agent.counters() if not process["ended"]) / 1e6


def measure_inside(part, agent):
    """What the shim takes of a step, by its own account: it does not depend on what the host is worth."""
    if lab.EMULATED or not TICKS.exists():
        part.untested("the shim's own time in a step", f"there is no {TICKS.name}")
        return
    for model, (batch, _, _) in MODELS.items():
        environment = agent.variables("task") | ALIKE | {"LD_PRELOAD": str(TICKS)}
        talker = lab.Talker(command_of(model, batch), lab.plain_environment(**environment), lab.WORK / f"{model}-inside.log")
        talker.read(120)
        before = json.loads(talker.ask(f"steps {SETTLE_STEPS}", 60))["ticks"]
        held_before_ms = held_ms(agent)
        answer = json.loads(talker.ask(f"steps {INSIDE_STEPS}", 60))
        waited_ms = held_ms(agent) - held_before_ms
        spent = {key: answer["ticks"][key] - before[key] for key in before}
        tick_ns = spent["now_s"] * 1e9 / spent["now_ticks"]
        own_ms = ((spent["quick_ticks"] + spent["other_ticks"]) * tick_ns / 1e6 - waited_ms) / (INSIDE_STEPS + 1)
        part.point(model=model, inside=spent, step_ms=round(answer["ms"], 3), waited_ms=round(waited_ms, 3),
                   quick_ns=round(spent["quick_ticks"] * tick_ns / max(1, spent["quick"])),
                   other_ns=round((spent["other_ticks"] * tick_ns - waited_ms * 1e6) / max(1, spent["other"])))
        part.bar(f"{model} training step, alone, the shim's own part by its account", "for information",
                 f"{own_ms:.3f} ms of {answer['ms']:.2f} ms, {own_ms / answer['ms']:.2%}", None)
        talker.close()


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
                        env=lab.plain_environment(**agent.variables("service")), stdout=subprocess.DEVNULL)
    alone = lab.Agent("o", quota_bytes=64 * lab.GIB, window_us=20000)
    measure_inside(part, alone)
    alone.close()
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

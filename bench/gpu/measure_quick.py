"""What quick launches save of a step that is bound by its host: a BERT training step and a token of an eager decoder.

The same process makes turns with quick launches and without them (libgpumux-cuda-switch.so), so that nothing but
the launch path differs between the two turns of a pair. Beside it, for information: the same step natively, and
under a shim from which quick launches were removed (build/other/libgpumux-cuda.so), in processes of their own.
A model's turns end when the 95 % interval of the median ratio is within half a percent and decides, or when its
time is up."""

import json
import random
import sys
import time

import lab
import measure_steps

SWITCH = lab.TREE / "build/release/lib/libgpumux-cuda-switch.so"  # carried along with the bundle
OTHER = lab.TREE / "build/other/libgpumux-cuda.so"
# Batch, steps of a turn.
MODELS = {"bert": (32, 4), "decoder": (1, 8)}
PROCESSES = 2  # of each kind that is compared
PAIRS_LEAST, HALF_WIDTH, KEEP_FROM = 100, 0.005, 1.01
START_S = 45  # of the part's time, for starts and ends


def begin(node, model, shim, name):
    command = [sys.executable, str(lab.TREE / "bench/gpu/steps.py"), "--model", model, "--batch", str(MODELS[model][0])]
    cores = lab.same_cores(3)
    command += ["--cores", ",".join(map(str, cores))] if cores else []
    command += ["--fake"] if lab.EMULATED else []
    log = str(lab.WORK / f"{model}-{name}.log")
    if not shim:
        return lab.Talker(command, lab.plain_environment(**measure_steps.ALIKE), log)
    return lab.Talker([lab.GPUMUX, "run", "--quota", "16g", "--directory", str(node.directory), "--",
                       "env", f"LD_PRELOAD={shim}", *command], node.environment | measure_steps.ALIKE, log)


def begin_all(node, model):
    wanted = [("native", None)] + [(f"switch-{i}", SWITCH) for i in range(PROCESSES)]
    if OTHER.exists():
        wanted += [(f"removed-{i}", OTHER) for i in range(PROCESSES)]
    talkers = {name: begin(node, model, shim, name) for name, shim in wanted}
    for name, talker in talkers.items():
        if talker.read(180) != "ready":
            raise OSError(f"{model}, {name} does not start")
    return talkers


def measure_round(talkers, model, taken):
    """A turn of each in any order; the two of a pair follow each other."""
    steps, lab_s = MODELS[model][1], 60
    for name in random.sample(list(talkers), len(talkers)):
        modes = random.sample(["quick", "slow"], 2) if name.startswith("switch") else [""]
        for mode in modes:
            answer = json.loads(talkers[name].ask(f"steps {steps} {mode}", lab_s))
            taken.setdefault((name, mode), []).append(answer)


def pairs(taken, of, to, key="ms"):
    """Ratios of the turns of one round: processes of one kind and mode to those of another."""
    found = []
    for (name, mode), answers in taken.items():
        if (name.split("-")[0], mode) != of:
            continue
        other = (name, to[1]) if of[0] == to[0] else next(k for k in taken if (k[0].split("-")[0], k[1]) == to)
        found += [a[key] / b[key] for a, b in zip(answers, taken[other])]
    return found


def judge(part, model, taken, elapsed_s):
    ratios = pairs(taken, ("switch", "slow"), ("switch", "quick"))
    low, high = lab.median_interval(ratios)
    is_narrow = high - low <= 2 * HALF_WIDTH and len(ratios) >= PAIRS_LEAST
    paid = {mode: sum(a["paid"] != 0 for (_, m), answers in taken.items() if m == mode for a in answers)
            for mode in ("quick", "slow")}
    part.bar(f"{model}: a step without quick launches, of one with them", f"for information: they stay from {KEEP_FROM} on",
             f"{lab.median(ratios):.4f}x ({low:.4f} to {high:.4f})", None, ratio=lab.median(ratios),
             interval95=[low, high], pairs=len(ratios), seconds=round(elapsed_s), is_narrow=is_narrow,
             turns_that_paid=paid, host_ratio=lab.median(pairs(taken, ("switch", "slow"), ("switch", "quick"), "host_ms")),
             of_processes=[lab.median([a["ms"] / b["ms"] for a, b in zip(taken[f"switch-{i}", "slow"],
                                                                         taken[f"switch-{i}", "quick"])])
                           for i in range(PROCESSES)])
    for kind, mode in (("switch", "quick"), ("switch", "slow"), ("removed", "")):
        if any(name.split("-")[0] == kind for name, _ in taken):
            others = pairs(taken, (kind, mode), ("native", ""))
            low, high = lab.median_interval(others)
            part.bar(f"{model}: {kind} {mode}".strip() + ", of native", "for information",
                     f"{lab.median(others):.4f}x ({low:.4f} to {high:.4f})", None, ratio=lab.median(others))
    return is_narrow and not low < KEEP_FROM <= high


def measure_model(part, node, model, until_s):
    talkers = begin_all(node, model)
    for talker in talkers.values():
        talker.ask(f"steps {measure_steps.SETTLE_STEPS}", 60)
    lab.say(f"{model}: {len(talkers)} processes are ready")
    taken, start_s = {}, time.monotonic()
    is_enough = False
    while not is_enough and lab.LIMIT_S - lab.left_s() < until_s:
        for _ in range(20):
            measure_round(talkers, model, taken)
        is_enough = judge(part, model, taken, time.monotonic() - start_s)
    part.point(model=model, steps_of_a_turn=MODELS[model][1], turns={
        f"{name} {mode}".strip() + f" {key}": " ".join(f"{answer[key]:.3f}" for answer in answers)
        for (name, mode), answers in taken.items() for key in ("ms", "host_ms")})
    for talker in talkers.values():
        talker.child.stdin.close()
    for talker in talkers.values():
        lab.end(talker.child)


def main():
    part = lab.Part("quick", "what quick launches save of a step that is bound by its host")
    if not SWITCH.exists():
        part.untested("what quick launches save", f"there is no {SWITCH.name}")
        return part.end()
    node = lab.Node()
    for i, model in enumerate(MODELS):
        measure_model(part, node, model, (lab.LIMIT_S - START_S) * (i + 1) / len(MODELS))
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

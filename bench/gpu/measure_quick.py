"""What quick launches save of a step that is bound by its host: a BERT training step and a token of an eager decoder.

One process makes single steps with quick launches and without them in turns (libgpumux-cuda-switch.so), so that
nothing but the launch path differs between the two steps of a pair, and the host's noise, a tenth of a step and
more, is the same for both. A model's turns end when the 95 % interval of the trimmed mean ratio is within half a percent
and decides, or when its time is up. The processes take turns, too: several of a model, for one may be luckier with
its memory than another."""

import json
import math
import sys
import time

import lab
import measure_steps

SWITCH = lab.TREE / "build/release/lib/libgpumux-cuda-switch.so"  # carried along with the bundle
# Batch, pairs of a turn, part of the time.
MODELS = {"bert": (32, 50, 0.62), "decoder": (1, 100, 1)}
PROCESSES = 3
PAIRS_LEAST, HALF_WIDTH, KEEP_FROM = 1500, 0.005, 1.01
END_S = 15  # of the part's time, for ends


def begin(node, model, name):
    command = [sys.executable, str(lab.TREE / "bench/gpu/steps.py"), "--model", model, "--batch", str(MODELS[model][0])]
    cores = lab.same_cores(3)
    command += ["--cores", ",".join(map(str, cores))] if cores else []
    command += ["--fake"] if lab.EMULATED else []
    return lab.Talker([lab.GPUMUX, "run", "--quota", "16g", "--directory", str(node.directory), "--",
                       "env", f"LD_PRELOAD={SWITCH}", *command], node.environment | measure_steps.ALIKE,
                      str(lab.WORK / f"{model}-{name}.log"))


def trimmed_mean(values):
    """The mean of the middle three fifths, and its 95 % interval (Tukey and McLaughlin)."""
    values = sorted(values)
    n, cut = len(values), len(values) // 5
    middle = values[cut:n - cut]
    mean = sum(middle) / len(middle)
    winsorized = [middle[0]] * cut + middle + [middle[-1]] * cut
    centre = sum(winsorized) / n
    deviation = math.sqrt(sum((x - centre) ** 2 for x in winsorized) / (n - 1))
    half = 1.96 * deviation / ((1 - 2 * cut / n) * math.sqrt(n))
    return mean, mean - half, mean + half


def judge(part, model, taken, elapsed_s):
    ratios = [math.log(slow / quick) for answer in taken for quick, slow in
              zip(answer["quick_ms"], answer["slow_ms"])]
    ratio, low, high = (math.exp(x) for x in trimmed_mean(ratios))
    median, median_interval = lab.median(ratios), lab.median_interval(ratios)
    saved_ms = [slow - quick for answer in taken for quick, slow in zip(answer["quick_ms"], answer["slow_ms"])]
    part.bar(f"{model}: a step without quick launches, of one with them", f"for information: they stay from {KEEP_FROM} on",
             f"{ratio:.4f}x ({low:.4f} to {high:.4f})", None, ratio=ratio, interval95=[low, high],
             median=math.exp(median), median_interval95=[math.exp(x) for x in median_interval], pairs=len(ratios),
             seconds=round(elapsed_s), saved_ms=lab.median(saved_ms),
             step_ms=lab.median([x for answer in taken for x in answer["quick_ms"]]),
             steps_that_paid={mode: sum(answer[f"{mode}_paid"] for answer in taken) for mode in ("quick", "slow")})
    is_narrow = high - low <= 2 * HALF_WIDTH and len(ratios) >= PAIRS_LEAST
    return is_narrow and not low < KEEP_FROM <= high


def measure_model(part, node, model, until_s):
    _, pairs, _ = MODELS[model]
    talkers = [begin(node, model, i) for i in range(PROCESSES)]
    for talker in talkers:
        if talker.read(180) != "ready":
            raise OSError(f"{model} does not start")
    for talker in talkers:
        talker.ask(f"steps {measure_steps.SETTLE_STEPS}", 60)
    lab.say(f"{model}: {len(talkers)} processes are ready")
    taken, start_s, is_enough = [], time.monotonic(), False
    while not is_enough and lab.LIMIT_S - lab.left_s() < until_s:
        taken += [json.loads(talker.ask(f"pairs {pairs}", 60)) for talker in talkers]
        is_enough = judge(part, model, taken, time.monotonic() - start_s)
    part.point(model=model, steps={key: " ".join(f"{ms:.3f}" for answer in taken for ms in answer[key])
                                   for key in ("quick_ms", "slow_ms")})
    for talker in talkers:
        talker.child.stdin.close()
    for talker in talkers:
        lab.end(talker.child)


def main():
    part = lab.Part("quick", "what quick launches save of a step that is bound by its host")
    if not SWITCH.exists():
        part.untested("what quick launches save", f"there is no {SWITCH.name}")
        return part.end()
    node = lab.Node()
    for model, (_, _, until) in MODELS.items():
        measure_model(part, node, model, (lab.LIMIT_S - END_S) * until)
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

"""The parts of the cost of a training step.

The step runs under `gpumux run` with fewer and fewer of the variables that gpumux sets for a task,
down to MPS alone, beside a native step. All processes live at the same time and take turns, as in
measure_steps.py; each turn's time is compared with that of the native step in the same round.
"""

import json
import sys

import lab
import measure_steps

# Variables of gpumux that each variant goes without.
VARIANTS = {
    "gpumux": (),
    "gpumux, at the usual priority": ("CUDA_MPS_CLIENT_PRIORITY",),
    "gpumux, without MPS's limit of memory": ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",),
    "the same without the shim": ("LD_PRELOAD",),
    "MPS alone": ("LD_PRELOAD", "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
}
# Rounds, steps of a turn.
TURNS = {"resnet50": (20, 4), "bert": (60, 2)}


def begin(node, model, batch, name, without):
    command = measure_steps.command_of(model, batch)
    drop = ["env", *(word for variable in without for word in ("-u", variable))]
    log = str(lab.WORK / f"{model}-{name}.log")
    return lab.Talker([lab.GPUMUX, "run", "--quota", "20g", "--directory", str(node.directory),
                       "--", *drop, *command], node.environment | measure_steps.ALIKE, log)


def measure_model(part, node, model):
    batch = measure_steps.MODELS[model][0]
    rounds, steps = TURNS[model]
    talkers = {name: begin(node, model, batch, name, without) for name, without in VARIANTS.items()}
    talkers["native"] = lab.Talker(measure_steps.command_of(model, batch),
                                   lab.plain_environment(**measure_steps.ALIKE),
                                   str(lab.WORK / f"{model}-native.log"))
    for name, talker in talkers.items():
        if talker.read(120) != "ready":
            raise OSError(f"{name} does not start")
    for talker in talkers.values():
        talker.ask(f"steps {measure_steps.SETTLE_STEPS}", 60)
    names, taken = list(talkers), {name: [] for name in talkers}
    for i in range(rounds):
        first = i % len(names)  # no process always follows the same one
        for name in names[first:] + names[:first]:
            taken[name].append(json.loads(talkers[name].ask(f"steps {steps}", 60))["ms"])
    part.point(model=model, steps_of_a_turn=steps,
               turns_ms={name: " ".join(f"{ms:.3f}" for ms in values)
                         for name, values in taken.items()})
    for name in VARIANTS:
        ratios = [ms / native for ms, native in zip(taken[name], taken["native"])]
        low, high = lab.median_interval(ratios)
        more_ms = min(taken[name]) - min(taken["native"])
        part.bar(f"{model} training step, alone: {name}", "for information",
                 f"{lab.median(ratios):.4f}x ({low:.4f} to {high:.4f}); "
                 f"the shortest {more_ms:+.3f} ms", None,
                 ratio=lab.median(ratios), interval95=[low, high], shortest_more_ms=more_ms)
    for talker in talkers.values():
        talker.child.stdin.close()
    for talker in talkers.values():
        lab.end(talker.child)


def main():
    part = lab.Part("step-parts", "whose part of a training step's price is whose")
    node = lab.Node()
    for model in TURNS:
        measure_model(part, node, model)
    node.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

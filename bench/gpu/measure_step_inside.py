"""The shim's part of a training step, by its own account.

A build of the shim reads the processor's cycle counter around its work on each launch. The result
does not depend on the speed of the host, and is slightly too large, because the counting itself
takes time.
"""

import json
import sys

import lab
import measure_steps

TICKS = lab.TREE / "build/release/lib/libgpumux-cuda-ticks.so"  # shipped beside the bundle
STEPS = 100


def held_ms(agent):
    """Returns the time for which launches waited until the device had completed earlier ones."""
    return sum(process["held_window_ns"] for process in agent.counters()
               if not process["ended"]) / 1e6


def measure_model(part, agent, model):
    environment = agent.variables("task") | measure_steps.ALIKE | {"LD_PRELOAD": str(TICKS)}
    talker = lab.Talker(measure_steps.command_of(model, measure_steps.MODELS[model][0]),
                        lab.plain_environment(**environment), lab.WORK / f"{model}-inside.log")
    talker.read(120)
    before = json.loads(talker.ask(f"steps {measure_steps.SETTLE_STEPS}", 60))["ticks"]
    held_before_ms = held_ms(agent)
    answer = json.loads(talker.ask(f"steps {STEPS}", 60))
    waited_ms = held_ms(agent) - held_before_ms
    spent = {key: answer["ticks"][key] - before[key] for key in before}
    tick_ns = spent["now_s"] * 1e9 / spent["now_ticks"]
    own_ms = (spent["ticks"] * tick_ns / 1e6 - waited_ms) / (STEPS + 1)
    launch_ns = (spent["ticks"] * tick_ns - waited_ms * 1e6) / max(1, spent["launches"])
    part.point(model=model, inside=spent, step_ms=round(answer["ms"], 3),
               waited_ms=round(waited_ms, 3), launch_ns=round(launch_ns))
    part.bar(f"{model} training step, alone, the shim's own part by its account", "for information",
             f"{own_ms:.3f} ms of {answer['ms']:.2f} ms, {own_ms / answer['ms']:.2%}", None)
    talker.close()


def main():
    part = lab.Part("step-inside",
                    "the shim's own part of a training step alone, by its own account")
    if lab.EMULATED or not TICKS.exists():
        part.untested("the shim's own part of a training step", f"there is no {TICKS.name}")
        return part.end()
    agent = lab.Agent("o", quota_bytes=64 * lab.GIB, window_us=20000)
    for model in measure_steps.MODELS:
        measure_model(part, agent, model)
    agent.close()
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

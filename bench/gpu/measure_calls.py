"""Cost of single calls: native, under a quota, alone under gpumux, and with gate and window armed.

All processes live at the same time on the same cores and are measured in turns of some 15 ms. On a
shared machine, the speed of a core changes from second to second by more than the costs measured
here, and this way it changes for all processes. SETS times all processes are restarted, so that the
result does not depend on the memory layout of one process. A bar applies to the median of a pair's
ratio.
"""

import contextlib
import json
import subprocess
import sys

import lab

SETS, ROUNDS, WARM = 5, 40, 3
VARIANTS = ("native", "quota", "alone", "armed")
BARS = (("launch_ns", "quota", 1.03, "empty launch, task with a quota"),
        ("launch_ns", "armed", 1.08, "empty launch, gate and window armed"),
        ("cold_launch_ns", "quota", None, "empty launch with cold caches, task with a quota"),
        ("launch_ns", "alone", None, "empty launch, task on a device of its own"),
        ("cold_launch_ns", "alone", None,
         "empty launch with cold caches, task on a device of its own"),
        ("cold_launch_ns", "armed", None, "empty launch with cold caches, gate and window armed"),
        ("malloc_ns", "quota", 1.03, "cudaMalloc and cudaFree, task with a quota"),
        ("malloc_async_ns", "quota", 1.30, "cudaMallocAsync and cudaFreeAsync, task with a quota"))


class Program:
    """calls.cu in an environment."""

    def __init__(self, program, environment, log):
        # Two cores for all of them, like a real program: the keeper, a thread of the shim, must not
        # load the core of the launching thread.
        self.talker = None
        if not lab.EMULATED:
            self.talker = lab.Talker(lab.on_same_cores(2, [program]), environment, log)

    def measure(self):
        if not self.talker:  # no kernels run: only this file's arithmetic is tested
            return {"launch_ns": 3500.0, "cold_launch_ns": 6000.0, "malloc_ns": 70000.0,
                    "malloc_async_ns": 1000.0}
        return json.loads(self.talker.ask("", 60))

    def close(self):
        if self.talker:
            self.talker.close()


def report(part, runs, setting):
    for call, variant, limit, what in BARS:
        ratios = [run[variant][call] / run["native"][call] for run in runs]
        low, high = lab.median_interval(ratios)
        ratio = lab.median(ratios)
        part.bar(f"{what}, {setting}", f"<= {limit}x native" if limit else "for information",
                 f"{ratio:.3f}x ({low:.3f} to {high:.3f})", ratio <= limit if limit else None,
                 ratio=ratio, interval95=[low, high], pairs=len(ratios),
                 native_ns=lab.median([run["native"][call] for run in runs]))


def measure_setting(part, program, setting, mps_variables):
    agents = {"quota": lab.Agent(f"{len(mps_variables)}q", quota_bytes=64 * lab.GIB),
              "alone": lab.Agent(f"{len(mps_variables)}o", quota_bytes=64 * lab.GIB,
                                 window_us=20000),
              "armed": lab.Agent(f"{len(mps_variables)}a", quota_bytes=64 * lab.GIB, window_us=250,
                                 gate_us=20000)}
    # A present but idle service, so that the gate has a service to watch.
    service = lab.start([lab.BURN, "--service", "--rate", "0.01", "--kernel-ms", "0.01"],
                        env=lab.plain_environment(**mps_variables,
                                                  **agents["armed"].variables("service")),
                        stdout=subprocess.DEVNULL)
    lab.wait_until("the service has registered",
                   lambda: any(p["mark"] == "service" for p in agents["armed"].counters()), 30)
    runs = []
    for number in range(SETS):
        own = {variant: agents[variant].variables("task") if variant in agents else {}
               for variant in VARIANTS}
        programs = {variant: Program(program,
                                     lab.plain_environment(**mps_variables, **own[variant]),
                                     lab.WORK / f"{variant}.err") for variant in VARIANTS}
        for i in range(WARM + ROUNDS):
            order = VARIANTS[i % len(VARIANTS):] + VARIANTS[:i % len(VARIANTS)]
            run = {variant: programs[variant].measure() for variant in order}
            if i >= WARM:
                runs.append(run)
        for p in programs.values():
            p.close()
        of_set = runs[-ROUNDS:]
        part.point(setting=setting, set=number, **{
            variant: {call: lab.median([run[variant][call] for run in of_set])
                      for call in of_set[0][variant]}
            for variant in VARIANTS})
        report(part, runs, setting)
    for variant, agent in agents.items():
        tasks = [p for p in agent.counters() if p["mark"] == "task"]
        if tasks:
            part.point(setting=setting, counters_of=variant, counters=tasks[-1])
    for child in (service, *[a.child for a in agents.values()]):
        lab.end(child)


def main():
    part = lab.Part("calls",
                    "the price of single calls under the shim, native runs alternating with it")
    program = None if lab.EMULATED else lab.build_cuda("bench/gpu/calls.cu")
    measure_setting(part, program, "without MPS", {})
    with contextlib.ExitStack() as stack:
        try:
            variables = stack.enter_context(lab.mps())
        except (OSError, subprocess.SubprocessError) as problem:
            part.untested("single calls under MPS", f"MPS does not start: {problem}")
            return part.end()
        measure_setting(part, program, "both under MPS", variables)
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

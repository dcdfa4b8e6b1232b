"""The price of single calls: native, under a quota, and with gate and window armed, alternating."""

import contextlib
import json
import subprocess
import sys

import lab

ROUNDS = 15
VARIANTS = ("native", "quota", "armed")
BARS = (("launch_ns", "quota", 1.03, "empty launch, task with a quota"),
        ("launch_ns", "armed", 1.08, "empty launch, gate and window armed"),
        ("malloc_ns", "quota", 1.03, "cudaMalloc and cudaFree, task with a quota"),
        ("malloc_async_ns", "quota", 1.30, "cudaMallocAsync and cudaFreeAsync, task with a quota"))


def measure(program, environment):
    if lab.EMULATED:  # where kernels do not run: the arithmetic of this file is what is tried
        return {"launch_ns": 3500.0, "malloc_ns": 70000.0, "malloc_async_ns": 1000.0}
    # Two cores for all three, as programs have them: the keeper, a thread of the shim, is not to be measured as a
    # load on the thread that launches.
    done = subprocess.run(lab.on_same_cores(2, [program]), env=environment, capture_output=True, text=True, timeout=60,
                          check=False)
    if done.returncode != 0:
        raise OSError(f"calls: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def report(part, runs, setting, is_bar):
    for call, variant, limit, what in BARS:
        ratios = [run[variant][call] / run["native"][call] for run in runs]
        low, high = lab.median_interval(ratios)
        ratio = lab.median(ratios)
        part.bar(f"{what}, {setting}", f"<= {limit}x native", f"{ratio:.3f}x ({low:.3f} to {high:.3f})",
                 ratio <= limit if is_bar else None, ratio=ratio, interval95=[low, high], pairs=len(ratios),
                 native_ns=lab.median([run["native"][call] for run in runs]))


def measure_setting(part, program, setting, mps_variables):
    agents = {"quota": lab.Agent(f"{len(mps_variables)}q", quota_bytes=64 * lab.GIB),
              "armed": lab.Agent(f"{len(mps_variables)}a", quota_bytes=64 * lab.GIB, window_us=250,
                                 gate_us=20000)}
    # A service that is there and idle: the gate has something to look at.
    service = lab.start([lab.BURN, "--service", "--rate", "0.01", "--kernel-ms", "0.01"],
                        env=lab.plain_environment(**mps_variables, **agents["armed"].variables("service")),
                        stdout=subprocess.DEVNULL)
    lab.wait_until("the service has registered",
                   lambda: any(p["mark"] == "service" for p in agents["armed"].counters()), 30)
    runs = []
    for i in range(ROUNDS):
        run = {}
        for variant in VARIANTS[i % 3:] + VARIANTS[:i % 3]:
            limits = agents[variant].variables("task") if variant in agents else {}
            run[variant] = measure(program, lab.plain_environment(**mps_variables, **limits))
        runs.append(run)
        part.point(setting=setting, round=i, **run)
        if i % 4 == 3:
            report(part, runs, setting, True)
    for variant, agent in agents.items():
        tasks = [p for p in agent.counters() if p["mark"] == "task"]
        if tasks:
            part.point(setting=setting, counters_of=variant, counters=tasks[-1])
    for child in (service, *[a.child for a in agents.values()]):
        lab.end(child)


def main():
    part = lab.Part("calls", "the price of single calls under the shim, native runs alternating with it")
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

"""Unmodified programs of every framework, natively and under gpumux, on a real GPU.

protection.sh runs this program. Each case must compute the same result under gpumux, see its quota
as the device's memory, get its framework's own error for a request beyond the quota, continue after
the error, and be counted right. Cases that cannot run here are reported as untested.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "bench/gpu"))
import lab  # noqa: E402

PROGRAMS = Path(__file__).resolve().parent / "programs"
QUOTA_BYTES, PROBE_BYTES = 6 * lab.GIB, 8 * lab.GIB
AT_A_TIME, CASE_S_MAX = 8, 150
ALWAYS_ZERO = ("frees_unknown", "allocations_uncounted", "uncounted_bytes", "marks_failed")


@dataclasses.dataclass
class Case:
    name: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    native: dict = dataclasses.field(default_factory=dict)  # variables of the native run only
    has_kernels: bool = True
    untested: str = ""  # reason, if the case cannot run


def python(program, *arguments):
    return [sys.executable, str(PROGRAMS / program), *arguments]


def allocator(setting):
    return {"PYTORCH_ALLOC_CONF": setting, "PYTORCH_CUDA_ALLOC_CONF": setting}


def build(name, make):
    try:
        return Case(name, [make()])
    except (OSError, subprocess.SubprocessError) as problem:
        return Case(name, [], untested=f"it cannot be built: {str(problem)[-200:]}")


def plain_cases():
    program = lab.build_c("tests/gpu/programs/plain.c")
    if lab.EMULATED:
        return [Case("the driver's interface alone", [program, "driver", "--without-kernels"],
                     has_kernels=False)]
    source = "tests/gpu/programs/plain.cu"
    cases = [
        Case("the driver's interface alone", [program, "driver"]),
        build("CUDA, nvcc, static runtime",
              lambda: lab.build_cuda(source, "-cudart", "static", name="plain-static")),
        build("CUDA, nvcc, shared runtime",
              lambda: lab.build_cuda(source, "-cudart", "shared", name="plain-shared"))]
    nvcc = lab.find_nvcc()
    if nvcc:  # the folder of the shared runtime, which the loader may not know
        folder = str(Path(nvcc).resolve().parents[1] / "lib64")
        own = os.environ.get("LD_LIBRARY_PATH", "")
        cases[2].environment["LD_LIBRARY_PATH"] = f"{folder}:{own}"
    old = sorted(Path(os.environ.get("CUDART11", TREE / "dist/cudart11")).rglob("libcudart.so.11*"))
    cases.append(Case("the runtime of CUDA 11.8", [program, "runtime", str(old[0])]) if old else
                 Case("the runtime of CUDA 11.8", [],
                      untested="its libcudart.so.11.0 was not brought here"))
    return cases


def all_cases():
    cases = plain_cases()
    if lab.EMULATED:
        return cases
    torch = "torch_probe.py"
    return cases + [
        Case("PyTorch, caching allocator", python(torch, "eager")),
        Case("PyTorch, expandable_segments", python(torch, "eager"),
             allocator("expandable_segments:True")),
        Case("PyTorch, cudaMallocAsync", python(torch, "eager"),
             allocator("backend:cudaMallocAsync")),
        Case("PyTorch, CUDA graph", python(torch, "graph")),
        Case("PyTorch, torch.compile", python(torch, "compile")),
        Case("PyTorch, DataLoader workers", python(torch, "workers")),
        Case("PyTorch, two processes", python(torch, "two")),
        Case("PyTorch, a tensor shared between processes", python(torch, "shared")),
        Case("JAX", python("jax_probe.py"), native={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2"}),
        Case("CuPy", python("cupy_probe.py")),
        Case("Triton", python("triton_probe.py")),
        Case("ONNX Runtime", python("onnx_probe.py"))]


# ---- one run ----

def answer_of(done):
    """Returns the final JSON of a program, or the reason why there is none."""
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode == 77:
        return {"skipped": lines[-1] if lines else "no reason given"}
    with contextlib.suppress(ValueError, IndexError):
        if done.returncode == 0:
            return json.loads(lines[-1])
    said = (done.stderr or done.stdout).strip()[-500:]
    return {"failed": f"exit status {done.returncode}: {said}"}


def run_limited(command, environment):
    if lab.left_s() < 15:
        return {"failed": "no time was left for it"}
    try:
        return answer_of(subprocess.run(command, env=environment, capture_output=True, text=True,
                                        check=False, stdin=subprocess.DEVNULL,
                                        timeout=max(5, min(CASE_S_MAX, lab.left_s() - 10))))
    except subprocess.TimeoutExpired:
        return {"failed": "it did not end in time"}


def common(case, scratch):
    """Returns common variables. Each run has its own caches of compiled kernels."""
    return {**case.environment, "PROBE_BYTES": str(PROBE_BYTES),
            "TRITON_CACHE_DIR": f"{scratch}/triton",
            "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
            "CUPY_CACHE_DIR": f"{scratch}/cupy"}


def run_native(case, number):
    scratch = lab.WORK / f"native{number}"
    scratch.mkdir()
    return run_limited(case.command, lab.plain_environment(**common(case, scratch), **case.native))


def run_protected(node, case, number):
    """Runs the case under `gpumux run`. Returns its answer and the last counters of the node."""
    name, scratch = f"case-{number}", node.directory / f"c{number}"
    scratch.mkdir()
    command = [lab.GPUMUX, "run", "--quiet", "--name", name, "--quota", "6g", "--directory",
               str(scratch), "--", *case.command]
    environment = {**node.environment, **common(case, scratch), "PROBE_HOLD_S": "2",
                   "PROBE_QUOTA": "1"}
    seen, is_over = {}, threading.Event()

    def watch():
        while not is_over.wait(0.1):
            with contextlib.suppress(Exception):
                found = node.api("GET", f"/v1/workloads?name={name}")["workloads"]
                usage = found[0]["usage"] if found else None
                if usage and usage["protection"]:
                    seen.update(usage["protection"]["counters"],
                                counted_bytes=usage["protection"]["counted_bytes"],
                                peak_bytes=usage["protection"]["peak_bytes"])
                    seen.setdefault("enforcement", node.show(found[0]["id"])["enforcement"])
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    answer = run_limited(command, environment)
    is_over.set()
    watcher.join()
    return answer, seen


# ---- verdicts ----

def is_near(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-3 * max(1, abs(x), abs(y))
                                    for x, y in zip(a, b))


def faults_of(case, native, answer, seen):
    """Returns descriptions of all faults."""
    if "failed" in answer:
        return [f"it fails: {answer['failed']}"]
    wrong = []
    if not is_near(native["result"], answer["result"]):
        wrong.append(f"it computes {answer['result']}, natively {native['result']}")
    if not is_near(answer["result"], answer["again"]):
        wrong.append("it does not go on as before after memory was refused")
    if native["oom"]:
        wrong.append(f"memory was refused natively: {native['oom']}")
    if not answer["oom"]:
        wrong.append("it got more than its quota")
    if not 0.5 * QUOTA_BYTES <= answer["total_bytes"] <= QUOTA_BYTES:
        wrong.append(f"it sees {answer['total_bytes']} bytes, not its quota")
    if not seen:
        return wrong + ["nothing was counted"]
    wrong += [f"{name} is {seen[name]}" for name in ALWAYS_ZERO if seen.get(name, 0) != 0]
    if seen.get("peak_bytes", 0) > QUOTA_BYTES:
        wrong.append(f"it held {seen['peak_bytes']} bytes, more than its quota")
    if case.has_kernels and seen.get("launches_kernel", 0) + seen.get("launches_graph", 0) == 0:
        wrong.append("no launch was counted")
    if answer.get("limited_by", "driver") == "driver" and seen.get("out_of_memory", 0) == 0:
        wrong.append("no refusal was counted")
    return wrong


def judge(part, setting, case, native, outcome):
    answer, seen = outcome
    what = f"{case.name}, {setting}"
    if "skipped" in native or "failed" in native:
        part.untested(what, native.get("skipped") or
                      f"it fails without gpumux too: {native['failed']}")
        return
    wrong = faults_of(case, native, answer, seen)
    part.point(case=case.name, setting=setting, right=not wrong, wrong=wrong, native=native,
               protected=answer, counters=seen)
    for item in wrong:
        lab.say(f"  wrong: {case.name}: {item}")
    part.bar(what, "runs right, sees its quota, is refused more, goes on, is counted",
             "so" if not wrong else "; ".join(wrong)[:400], not wrong, error=answer.get("oom"))


def try_all(part, setting, settings, cases, natives, pool):
    node = lab.Node(*settings)
    runs = {}
    for number, case in enumerate(cases):
        runs[pool.submit(run_protected, node, case, number)] = number
        if number not in natives:
            natives[number] = pool.submit(run_native, case, number)
    for done in concurrent.futures.as_completed(runs):
        number = runs[done]
        judge(part, setting, cases[number], natives[number].result(), done.result())
    node.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--setting", choices=("mps", "turns", "both"), default="both")
    options = parser.parse_args()
    part = lab.Part("frameworks", "unmodified programs under gpumux beside their native runs",
                    "tests/gpu/protection.sh")
    cases = [case for case in all_cases() if not options.only or options.only in case.name]
    for case in cases:
        if case.untested:
            part.untested(case.name, case.untested)
    cases = [case for case in cases if not case.untested]
    lab.say(f"{len(cases)} cases")
    natives = {}
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        if options.setting != "turns":
            try_all(part, "through MPS", [], cases, natives, pool)
        if options.setting != "mps":
            try_all(part, "in turns, without MPS", ["mps=off"], cases, natives, pool)
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

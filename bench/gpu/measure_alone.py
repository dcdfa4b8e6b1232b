"""Cost of the surroundings for a service alone: natively and with the shim, without and with MPS.

Services of the same kind with the same kernels answer requests in turns, while the others pause. A
frontier compares a service beside a task with a service alone in the same surroundings; this part
measures the cost of the surroundings themselves.
"""

import json
import sys

import lab

REQUESTS, RATE, ROUNDS = 1200, 150, 3
READY_S, ROUND_S = 120, 60


def start_services(variables):
    """Starts the services; each is ready once it has answered a first request."""
    command = [sys.executable, str(lab.TREE / "bench/gpu/serve.py"), "--rounds", "--same-kernels"]
    services = {name: lab.Talker(command, lab.plain_environment(**own),
                                 lab.WORK / f"{name.replace(' ', '-')}.err")
                for name, own in variables.items()}
    for service in services.values():
        service.ask(f"1 {RATE}", READY_S)
    return services


def main():
    part = lab.Part("alone", "a service alone: natively and with the shim, without MPS and with it")
    agent = lab.Agent("a")
    with lab.mps() as mps:
        services = start_services({"native": {}, "shim": agent.variables("service-1"), "MPS": mps,
                                   "MPS, all SMs asked for":
                                   mps | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"},
                                   "MPS and shim": mps | agent.variables("service-2")})
        served = {name: [] for name in services}
        for _ in range(ROUNDS):
            for name, service in services.items():
                served[name].append(json.loads(service.ask(f"{REQUESTS} {RATE}", ROUND_S)))
                part.point(surroundings=name, **served[name][-1])
        for service in services.values():
            service.close()
    agent.close()
    for name, rounds in served.items():
        p50, p99 = (lab.median([r[key] for r in rounds]) for key in ("p50_ms", "p99_ms"))
        part.bar(f"service alone, {name}", "for information", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms",
                 None)
    return part.end()


if __name__ == "__main__":
    sys.exit(main())

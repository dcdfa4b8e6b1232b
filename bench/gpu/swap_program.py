"""Programs of swap.sh: swap_program.py task|service GIB, with PyTorch, or with --stand-in on the
driver API, for the emulated device.

The task allocates GIB in all, with data, and trains. It prints `loaded`, `ready`, for each window
`t START END samples/s N`, and after the command `verify` a line `verified CHANGED`, the number of
its pieces whose data have changed. The service fills the device except for a rest, and answers
each command with one line of JSON: `load` (fills the device), `grow GIB` (allocates and fills
memory) and `free`. `quit` ends both.
"""

import argparse
import ctypes
import json
import select
import sys
import time
from pathlib import Path

GIB, MIB = 1 << 30, 1 << 20
WINDOW_S = 0.4
REST_BYTES = 192 * MIB  # left free by the service


class Torch:
    """Memory in PyTorch, and ResNet-50 training."""

    PIECE = 512 * MIB

    def __init__(self):
        import torch
        self.torch = torch
        torch.zeros(1, device="cuda")

    def free_bytes(self):
        return self.torch.cuda.mem_get_info()[0]

    def held_bytes(self):
        return self.torch.cuda.memory_reserved()

    def make(self, size, seed):
        generator = self.torch.Generator(device="cuda").manual_seed(seed)
        return self.torch.randint(1 << 62, (size // 8,), dtype=self.torch.int64, device="cuda",
                                  generator=generator)

    def take(self, size):
        memory = self.torch.empty(size, dtype=self.torch.uint8, device="cuda")
        memory.fill_(1)
        self.torch.cuda.synchronize()
        return memory

    def release(self, memory):
        memory.pop()
        self.torch.cuda.empty_cache()

    def checksum(self, piece):
        return int(piece.sum().item()) ^ int(piece[::4099].sum().item())

    def prepare(self):
        """Returns a function that trains a step, and the samples of a step."""
        torch = self.torch
        sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workloads"))
        import nets
        batch = 128
        with torch.device("cuda"):
            net, data = nets.resnet50(batch, False)
        labels = torch.randint(0, 1000, (batch,), device="cuda")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(net(data), labels)
            loss.backward()
            optimizer.step()
            torch.cuda.current_stream().synchronize()
        for _ in range(8):
            step()
        return step, batch


class StandIn:
    """The same on the driver API: the emulated device runs no CUDA runtime."""

    PIECE = 16 * MIB

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        for result in (self.cuda.cuInit(0),
                       self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                       self.cuda.cuCtxSetCurrent(context)):
            if result:
                raise MemoryError(f"no context: {result}")
        self.host = ctypes.create_string_buffer(self.PIECE)
        self.bytes = {}

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def held_bytes(self):
        return sum(self.bytes.values())

    def take(self, size):
        address = ctypes.c_uint64()
        result = self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        if result:
            raise MemoryError(f"cuMemAlloc: {result}")
        self.bytes[address.value] = size
        return address.value

    def release(self, memory):
        address = memory.pop()
        self.cuda.cuMemFree_v2(ctypes.c_uint64(address))
        del self.bytes[address]

    def make(self, size, seed):
        address = self.take(size)
        ctypes.memset(self.host, seed % 251 + 1, size)
        self.cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(address), self.host, ctypes.c_size_t(size))
        return address

    def checksum(self, piece):
        self.cuda.cuMemcpyDtoH_v2(self.host, ctypes.c_uint64(piece), ctypes.c_size_t(self.PIECE))
        return hash(self.host.raw)

    def prepare(self):
        def step():
            self.cuda.cuMemcpyDtoH_v2(self.host, ctypes.c_uint64(next(iter(self.bytes))),
                                      ctypes.c_size_t(MIB))
            time.sleep(0.01)
        return step, 1


def commands():
    """Returns the commands that have arrived, as lists of words."""
    found = []
    while select.select([sys.stdin], [], [], 0)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        found.append(line.split())
    return found


def run_task(device, size):
    print("loaded", flush=True)
    step, samples = device.prepare()
    pieces = []
    while device.held_bytes() < size or not pieces:
        pieces.append(device.make(device.PIECE, len(pieces)))
    sums = [device.checksum(piece) for piece in pieces]
    print("ready", flush=True)
    while True:
        start, count = time.monotonic(), 0
        while time.monotonic() - start < WINDOW_S:
            step()
            count += samples
        end = time.monotonic()
        print(f"t {start:.6f} {end:.6f} samples/s {count / (end - start):.3f}", flush=True)
        for words in commands():
            if words[0] == "quit":
                return
            if words[0] == "verify":
                changed = sum(device.checksum(p) != s for p, s in zip(pieces, sums))
                print(f"verified {changed}", flush=True)


def run_service(device, size):
    memory = []
    print(json.dumps({"started": True}), flush=True)
    for line in sys.stdin:
        words, begun, answer = line.split(), time.monotonic(), {}
        if words[0] == "quit":
            return
        try:
            if words[0] == "load":
                while (left := device.free_bytes() - REST_BYTES) >= 64 * MIB:
                    memory.append(device.take(min(left, 4 * GIB) // (2 * MIB) * (2 * MIB)))
            elif words[0] == "grow":
                memory.append(device.take(int(float(words[1]) * GIB)))
            elif words[0] == "free":
                device.release(memory)
        except (MemoryError, RuntimeError) as wrong:
            answer["failed"] = str(wrong).splitlines()[0][:200]
        end = time.monotonic()
        print(json.dumps(answer | {"seconds": end - begun, "end": end,
                                   "free_bytes": device.free_bytes()}), flush=True)
    del size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["task", "service"])
    parser.add_argument("gib", type=float)
    parser.add_argument("--stand-in", action="store_true")
    options = parser.parse_args()
    device = StandIn() if options.stand_in else Torch()
    {"task": run_task, "service": run_service}[options.role](device, int(options.gib * GIB))


if __name__ == "__main__":
    main()

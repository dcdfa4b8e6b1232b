"""Triton. See probe.py."""

import probe

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as problem:
    probe.skip(f"Triton is not here: {problem}")


@triton.jit
def scale(data, count, block: tl.constexpr):
    places = tl.program_id(0) * block + tl.arange(0, block)
    values = tl.load(data + places, mask=places < count)
    tl.store(data + places, values * 0.5 + 1, mask=places < count)


def compute():
    data = torch.arange(100000, dtype=torch.float32, device="cuda")
    results = []
    for _ in range(5):
        scale[(triton.cdiv(data.numel(), 1024),)](data, data.numel(), block=1024)
        results.append(data.sum().item())
    return results


def take(count):
    block = torch.empty(count, dtype=torch.uint8, device="cuda")
    del block
    torch.cuda.empty_cache()


if __name__ == "__main__":
    probe.run(compute, lambda: torch.cuda.mem_get_info()[1], take)

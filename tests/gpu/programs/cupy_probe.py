"""CuPy. See probe.py."""

import probe

try:
    import cupy
    cupy.cuda.runtime.memGetInfo()
except Exception as problem:
    probe.skip(f"CuPy cannot use the device: {str(problem).splitlines()[0]}")


def compute():
    x = cupy.arange(512 * 512, dtype=cupy.float32).reshape(512, 512) / (512 * 512)
    results = []
    for _ in range(5):
        x = cupy.tanh(x @ x.T / 100)
        results.append(float(x.sum()))
    return results


def take(count):
    block = cupy.zeros(count, dtype=cupy.uint8)
    del block
    cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    probe.run(compute, lambda: cupy.cuda.runtime.memGetInfo()[1], take)

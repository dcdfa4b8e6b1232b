"""JAX. See probe.py. Its allocator takes a part of the visible memory and refuses requests
beyond."""

import probe

try:
    import jax
    import jax.numpy as jnp
    device = jax.devices("gpu")[0]
except Exception as problem:  # JAX raises many kinds of errors
    probe.skip(f"JAX cannot use the device: {str(problem).splitlines()[0]}")


@jax.jit
def step(x, w):
    return jnp.tanh(x @ w).sum(), jnp.tanh(x @ w)


def compute():
    x = jax.random.normal(jax.random.key(1), (512, 512))
    results = []
    for _ in range(5):
        total, x = step(x, jnp.eye(512) * 1.01)
        results.append(float(total))
    return results


def take(count):
    jnp.zeros((count,), dtype=jnp.uint8).block_until_ready()


if __name__ == "__main__":
    probe.run(compute, lambda: device.memory_stats()["bytes_limit"], take, limited_by="framework")

"""Dense matching beside scipy's linear_sum_assignment; the sparse auction against its own bound."""
import os
import tempfile

import numpy as np
import scipy.optimize

import rows

SIZE, LARGE, EDGES = 2000, 20000, 64


def dense(kind):
    rng = np.random.default_rng(1)
    if kind == "uniform":
        return rng.random((SIZE, SIZE))
    if kind == "whole numbers":
        return rng.integers(1, 100, (SIZE, SIZE)).astype(float)
    speeds = rng.random((30, 60))
    by_class = speeds[rng.integers(0, 30, SIZE)][:, rng.integers(0, 60, SIZE)]
    return by_class + 0.2 * rng.random((SIZE, 1))


for kind in ("uniform", "whole numbers", "classes"):
    weights = np.ascontiguousarray(dense(kind))
    with tempfile.NamedTemporaryFile() as file:
        weights.tofile(file.name)
        ours = rows.values(rows.tool("matching_bench", "dense", file.name, SIZE, SIZE, 3))
    (r, c), ms = rows.least_ms(
        2, lambda: scipy.optimize.linear_sum_assignment(weights, maximize=True))
    best = weights[r, c].sum()
    rows.row(f"matching, {SIZE} x {SIZE} dense, {kind}: total less scipy's", "equal",
             f"{ours['total'] - best:.1e}", bool(abs(ours["total"] - best) <= 1e-9 * best))
    rows.row("the same: time against scipy's", "<= 1.5 x",
             f"{ours['ms'] / ms:.2f} x ({ours['ms']:.0f} ms)", ours["ms"] <= 1.5 * ms, scipy_ms=ms)

for kind in ("uniform", "classes", "same", "equal"):
    line = rows.tool("matching_bench", "sparse", kind, LARGE, LARGE, 1)
    v = rows.values(line)
    rows.row(f"matching, {LARGE} x {LARGE}, {EDGES} edges each, {kind}: one core", "<= 0.5 s",
             f"{v['cpu_ms'] / 1e3:.3f} s", v["cpu_ms"] <= 500, line=line.strip())
    rows.row("the same: gap to the dual", "<= 1 %", f"{100 * v['gap']:.2f} %", v["gap"] <= 0.01)
    rows.row("the same: memory", "<= 1 GB", f"{v['resident_kb'] / 1024:.0f} MB",
             v["resident_kb"] <= 2**20)

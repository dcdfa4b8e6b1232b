"""The piece-wise fit on synthetic curves, beside scipy's curve_fit of the same four parameters."""
import numpy as np
import scipy.optimize

import rows

CURVES, NOISE = 1000, 0.03
SHARES = np.array([10, 25, 40, 55, 75, 100.0])
ALL = np.arange(10, 101.0)


def latency(share, knee, level, left, right):
    return level + np.where(share <= knee, left, right) * (share - knee)


def share_of(curve, level):
    """Returns the least share from 10 to 100 with this latency, by enumeration."""
    fine = np.linspace(10, 100, 901)
    good = np.flatnonzero(latency(fine, *curve) <= level)
    return fine[good[0]] if len(good) else 100


rng = np.random.default_rng(0)
real = []
for _ in range(CURVES):
    level = rng.uniform(2, 50)
    right = -level * rng.uniform(0, 0.005)
    real.append((rng.uniform(20, 70), level, right - level * rng.uniform(0.01, 0.08), right))
noisy = [latency(SHARES, *c) * (1 + rng.normal(0, NOISE, len(SHARES))) for c in real]
*lines, last = rows.tool("pwl_bench", len(SHARES), given="\n".join(
    " ".join(f"{s!r} {v!r}" for s, v in zip(SHARES.tolist(), ys.tolist()))
    for ys in noisy)).splitlines()
ours = [tuple(map(float, line.split())) for line in lines]


def scipys(ys):
    try:
        start = (50, ys[3], (ys[0] - ys[3]) / (SHARES[0] - SHARES[3]),
                 (ys[3] - ys[5]) / (SHARES[3] - SHARES[5]))
        limits = ([10, 0, -np.inf, -np.inf], [100, np.inf, 0, 0])
        start = np.clip(start, [11, 1e-9, -1e9, -1e9], [99, 1e9, -1e-9, -1e-9])
        return scipy.optimize.curve_fit(latency, SHARES, ys, start, sigma=ys, bounds=limits)[0]
    except RuntimeError:
        return None


def mape(curve, truth):
    t = latency(ALL, *truth)
    return float(np.mean(np.abs(latency(ALL, *curve) / t - 1)))


beside = CURVES // 5
their_fits, ms = rows.least_ms(1, lambda: [scipys(ys) for ys in noisy[:beside]])
mean = float(np.mean([mape(c, t) for c, t in zip(ours, real)]))
both = [(mape(o, t), mape(s, t)) for o, s, t in zip(ours, their_fits, real) if s is not None]
rows.row(f"piece-wise fit, 6 samples with 3 % noise, {CURVES} curves: latency MAPE", "<= 5 %",
         f"{100 * mean:.2f} %", mean <= 0.05)
o, s = np.mean(both, axis=0)
rows.row(f"the same on {len(both)} of them, against scipy.optimize.curve_fit",
         "at least as accurate", f"{100 * o:.2f} % : {100 * s:.2f} %", bool(o <= s))
levels = [latency(rng.uniform(15, 95), *t) for t in real]
near = float(np.mean([abs(share_of(c, v) - share_of(t, v)) <= 5
                      for c, t, v in zip(ours, real, levels)]))
rows.row("the share derived from it within 5 points", "(no bar with 3 % noise)",
         f"{100 * near:.0f} %", None)
parameters = np.median(np.abs(np.array(ours) / np.array(real) - 1), axis=0)
rows.row("median errors of knee, latency there, left and right slope", "(not gated)",
         ", ".join(f"{p:.2f}" for p in parameters), None)
us = rows.values(last)["us"]
rows.row("one piece-wise fit: faster than curve_fit", "much",
         f"{ms * 1e3 / beside / us:.0f} x ({us:.1f} us)", None)

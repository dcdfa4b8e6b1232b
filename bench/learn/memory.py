"""The memory fit with each measured size left out in turn, beside scipy's non-negative least
squares."""
import csv
import os

import numpy as np
import scipy.optimize

import rows

with open(os.path.join(rows.SOURCE, "data", "h200_train_solo.csv")) as file:
    table = [(r["model"], int(r["batch"]), float(r["mem_mib"])) for r in csv.DictReader(file)]
*lines, last = rows.tool("memory_bench",
                         given="\n".join(f"{m} {b} {mib}" for m, b, mib in table)).splitlines()

errors, under, apart, spent = [], [], 0, []
for model, batch, mib, predicted, booked, inside in (line.split() for line in lines):
    batch, mib, predicted, booked = int(batch), float(mib), float(predicted), float(booked)
    others = [(b, y) for m, b, y in table if m == model and b != batch]
    largest = max(b for b, _ in others)
    a = np.array([[1 / y, b / largest / y] for b, y in others])
    (c, _), ms = rows.least_ms(3, lambda: scipy.optimize.nnls(a, np.ones(len(others))))
    spent.append(ms * 1e3)
    apart = max(apart, abs(predicted / (c[0] + c[1] * batch / largest) - 1))
    errors.append(abs(predicted / mib - 1))
    if booked < mib:
        under.append((model, batch, inside == "1"))
median = float(np.median(errors))
rows.row("memory fit, one of four sizes left out: median error", "<= 6 %", f"{100 * median:.1f} %",
         median <= 0.06)
inner = sum(inside for _, _, inside in under)
rows.row("the same, inside the measured range: under by more than the margin", "0 of 18",
         f"{inner} of 18", inner == 0,
         outside_too=[f"{m} {b}" for m, b, inside in under if not inside])
rows.row("the same, against scipy.optimize.nnls", "equal to 1e-4", f"{apart:.1e} apart",
         apart <= 1e-4)
ours = rows.values(last)["us"]
rows.row("one memory fit: faster than scipy's", "much",
         f"{np.median(spent) / ours:.0f} x ({ours:.2f} us)", None)

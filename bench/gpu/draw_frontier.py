"""draw_frontier.py RESULT PICTURE.svg: draws how much speed a service and a task keep beside each
other.

RESULT is a file from `protection.sh --merge`. Every point is one way to share the device: on the
left the service is as fast as alone, at the top the task is as fast as alone. The picture shows
gpumux's windows, with and without MPS, among all modes that were measured before in the same
setting (measure_frontier.MODES).
"""

import json
import math
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from measure_frontier import MODES, summarize

WIDTH, HEIGHT = 960, 420
LEFT, RIGHT, TOP, BOTTOM = 62, 936, 52, 366
RATIO_MIN, RATIO_MAX = 0.94, 6.4  # p99 / alone, on a logarithmic axis
FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
DARK, PALE, GRID, OURS, TURNS = "#1a1a1a", "#6f6f6f", "#e4e4e4", "#0b61a4", "#c2571a"
# Labels that would overlap others: dx, dy and anchor. All others are to the right of their point.
PLACES = {"MPS, priority": (0, -10, "middle"), "HAMi-core, 50 %": (-9, 4, "end"),
          "XSched, 4": (9, 10, "start"), "MPS, priority and 50 %": (-9, 10, "end")}


def at(ratio, kept):
    span = math.log(RATIO_MAX / RATIO_MIN)
    return (LEFT + (RIGHT - LEFT) * math.log(ratio / RATIO_MIN) / span,
            BOTTOM - (BOTTOM - TOP) * kept)


def text(x, y, words, **attributes):
    named = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escape(words)}</text>'


def axes():
    lines = []
    for ratio in (1, 1.5, 2, 3, 4, 5, 6):
        x, _ = at(ratio, 0)
        lines += [f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{BOTTOM}" stroke="{GRID}"/>',
                  text(x, BOTTOM + 17, f"{ratio}×", text_anchor="middle", font_size=11)]
    for percent in range(0, 101, 20):
        _, y = at(1, percent / 100)
        lines += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>',
                  text(LEFT - 8, y + 4, str(percent), text_anchor="end", font_size=11)]
    return [*lines, text((LEFT + RIGHT) / 2, BOTTOM + 40,
                         "service: 99th percentile of latency, times that of the service alone",
                         text_anchor="middle", fill=PALE),
            text(LEFT - 34, TOP - 14, "task: speed kept (%)", fill=PALE)]


def others():
    lines = []
    for name, (ratio, kept) in MODES.items():
        x, y = at(ratio, kept)
        dx, dy, anchor = PLACES.get(name, (9, 4, "start"))
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#b0b0b0"/>',
                  text(x + dx, y + dy, name, text_anchor=anchor, font_size=11, fill=PALE)]
    return lines


def ours(points, color, title, is_above):
    """Draws the windows from short to long, joined, with labels above or below and a title at the
    last."""
    windows = sorted((int(re.search(r"window (\d+) us", name).group(1)), ratio, kept)
                     for name, ratio, kept, _ in points if "no window" not in name)
    places = [at(ratio, kept) for _, ratio, kept in windows]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    lines = [f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>']
    for (window, _, _), (x, y) in zip(windows, places):
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{color}" stroke="#fff" '
                  f'stroke-width="1.5"/>',
                  text(x, y + (-11 if is_above else 19), f"{window} µs", text_anchor="middle",
                       font_size=10, fill=color)]
    x, y = places[-1]
    return [*lines, text(x + 13, y + 4, title, font_weight="bold", fill=color)]


def main():
    result = json.loads(Path(sys.argv[1]).read_text())
    lines_of = {}
    for part in result["parts"]:
        lines_of.setdefault(part["part"], []).extend(part["points"])
    drawn = [*axes(), *others(),
             *ours(summarize(lines_of["frontier"])[1], OURS, "gpumux", True),
             *ours(summarize(lines_of["frontier-turns"])[1], TURNS, "gpumux without MPS", False)]
    title = "A service beside a training task on one GPU"
    about = ("Each point is a way to share: the service's p99 latency over alone, and the part of "
             "its speed that the task keeps.")
    Path(sys.argv[2]).write_text("\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-labelledby="frontier-title frontier-desc" '
        f'font-family="{FONT}" font-size="12" fill="{DARK}">',
        f'<title id="frontier-title">{title}</title>', f'<desc id="frontier-desc">{about}</desc>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT - 34, 20, title, font_weight="bold", font_size=14), *drawn, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()

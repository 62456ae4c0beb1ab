#!/usr/bin/env python3
"""Draws what `tilewright bench --json` wrote as an SVG: each conversion's speed by that of the fastest plain movement of the
same bytes.

    tilewright bench --json > benches/results/DATE-MACHINE.json
    benches/results/chart.py benches/results/DATE-MACHINE.json > benches/results/DATE-MACHINE.svg
"""

import json
import sys
from xml.sax.saxutils import escape

# What is drawn for each conversion: size, whether by all threads, colour, and its name in the legend.
BARS = [
    ("DRAM", False, "#4269d0", "memory, 1 thread"),
    ("DRAM", True, "#9498a0", "memory, all threads"),
    ("L2", False, "#efb118", "cache of a core, 1 thread"),
]
LEFT, WIDTH, BAR, GAP, TOP = 220, 480, 7, 9, 70


def text(x, y, content, **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x}" y="{y}"{more}>{escape(content)}</text>'


def chart(results):
    """The whole image; the line at 1 is the roof."""
    rows = {(row["case"], row["size"], row["threads"] > 1): row["ratio_to_roof"] for row in results["rows"]}
    names = list(dict.fromkeys(row["case"] for row in results["rows"]))
    most = max([1.2, *rows.values()])
    across = lambda ratio: round(LEFT + WIDTH * ratio / most, 1)
    step = BAR * len(BARS) + GAP
    height = TOP + step * len(names) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 60}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        text(10, 20, f"Speed by the roof of the same bytes: {results['cpu']}, level {results['isa']}"),
        text(10, 36, f"profile: {results['profile']}", fill="#555"),
    ]
    for i, (_, _, colour, name) in enumerate(BARS):
        parts.append(f'<rect x="{LEFT + 165 * i}" y="46" width="10" height="10" fill="{colour}"/>')
        parts.append(text(LEFT + 165 * i + 15, 55, name))
    for tenths in range(0, int(most * 10) + 1, 2):
        x, roof = across(tenths / 10), tenths == 10
        colour = "#333" if roof else "#ddd"
        parts.append(f'<line x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{height - 16}" stroke="{colour}"/>')
        parts.append(text(x, height - 4, f"{tenths / 10:.1f}", text_anchor="middle", fill="#555"))
    for i, name in enumerate(names):
        y = TOP + step * i
        parts.append(text(LEFT - 8, y + 15, name, text_anchor="end"))
        for k, (size, threads, colour, _) in enumerate(BARS):
            ratio = rows.get((name, size, threads))
            if ratio is not None:
                bar = f'y="{y + BAR * k}" width="{across(ratio) - LEFT}" height="{BAR - 1}" fill="{colour}"'
                parts.append(f'<rect x="{LEFT}" {bar}><title>{escape(name)}: {ratio:.2f}</title></rect>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(chart(json.load(file)))

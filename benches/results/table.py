#!/usr/bin/env python3
"""Prints what `tilewright bench --json` wrote on several machines as one table of ratios to the roof.

    benches/results/table.py benches/results/DATE-MACHINE.json ...
"""

import json
import pathlib
import re
import sys

names, columns = [], []
for file in map(pathlib.Path, sys.argv[1:]):
    results = json.loads(file.read_text())
    ratios = {}
    for row in results["rows"]:
        if row["size"] == "DRAM":
            ratios.setdefault(row["case"], {})[row["threads"]] = f'{row["ratio_to_roof"]:.2f}'
    names += [name for name in ratios if name not in names]
    date, machine = re.fullmatch(r"(\d+-\d+-\d+)-(.*)", file.stem).groups()
    title = machine.removesuffix(f'-{results["cores"]}').replace("-", " ").title()
    columns.append((f'[{title}, {results["cores"]} cores](results/{file.name})', date, ratios))

print("| conversion | " + " | ".join(title for title, _, _ in columns) + " |")
print("|---" * (len(columns) + 1) + "|")
print("| measured on | " + " | ".join(date for _, date, _ in columns) + " |")
for name in names:
    cells = [ratios.get(name, {}) for _, _, ratios in columns]
    print(f"| {name} | " + " | ".join("; ".join(cell.values()) for cell in cells) + " |")

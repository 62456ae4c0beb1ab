"""The examples of the README run, one after another, as a reader would type them."""

import json
import re
from pathlib import Path

import numpy as np

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    weights = {"embed.weight": (40, 64), "layers.0.weight": (64, 96), "layers.0.norm": (64,)}
    header, size = {}, 0
    for name, shape in weights.items():
        end = size + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, end]}
        size = end
    text = json.dumps(header).encode()
    Path("model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) >= 5
    names = {}
    for example in examples:
        exec(compile(example, str(README), "exec"), names)
    printed = capsys.readouterr().out
    assert "layers.0.norm ttnn(dtype=bfloat16" in printed and "manifest.json" in {p.name for p in Path("packed").iterdir()}

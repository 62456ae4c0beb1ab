"""The examples of the documentation run, one after another, as a reader would type them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "python/README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
# Those that have examples, so that none is lost.
EXAMPLES = {"README.md": 1, "python/README.md": 6, "docs/python.md": 4, "docs/cookbook.md": 1, "docs/ttnn.md": 1}


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)


def checkpoint():
    weights = {"embed.weight": (40, 64), "layers.0.weight": (64, 96), "layers.0.norm": (64,)}
    header, size = {}, 0
    for name, shape in weights.items():
        end = size + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, end]}
        size = end
    text = json.dumps(header).encode()
    Path("model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    checkpoint()
    examples = blocks(page)
    assert len(examples) >= EXAMPLES.get(page, 0)
    names = {}
    for example in examples:
        exec(compile(example, page, "exec"), names)
    if page == "python/README.md":
        printed = capsys.readouterr().out
        assert "layers.0.norm ttnn(dtype=bfloat16" in printed
        assert "manifest.json" in {path.name for path in Path("packed").iterdir()}

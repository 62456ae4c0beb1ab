"""`tilewright pack` and transformers' own conversion of the same MXFP4 checkpoint. By hand:

    python -m venv venv && venv/bin/pip install torch transformers safetensors
    cargo build --release -p tilewright-cli
    venv/bin/python tests/packing/beside_transformers.py [--gigabytes 1]

Makes a checkpoint of experts as gpt-oss has them, and prints time and peak resident memory of

- *transformers*: each tensor is read by safetensors and dequantised to bf16 by `convert_moe_packed_tensors`, rows and
  columns exchanged, and dropped: nothing is packed or written;
- *pack*: `tilewright pack` to bfloat8_b tiles of the same transposed experts, written to files.

Each is a process of its own; the checkpoint is in the page cache for both.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import make_checkpoint
import speed

RULES = """
[[rule]]
name = "*"
skip = true
[[rule]]
name = "*.experts.{gate_up,down}_proj"
dtype = "bfloat8_b"
transpose = true
"""
CONVERT = """
import glob, sys
import torch
from safetensors import safe_open
from transformers.integrations import mxfp4
# The name of newer versions has an underscore.
convert = getattr(mxfp4, "convert_moe_packed_tensors", None) or mxfp4._convert_moe_packed_tensors
torch.set_num_threads(int(sys.argv[2]))
files, places = [safe_open(path, "pt") for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors"))], {}
for file in files:
    places |= dict.fromkeys(file.keys(), file)
elements = 0
for name in sorted(places):
    if name.endswith("_blocks"):
        scales = name.removesuffix("_blocks") + "_scales"
        values = convert(places[name].get_tensor(name), places[scales].get_tensor(scales), dtype=torch.bfloat16)
        elements += values.contiguous().numel()
print(elements)
"""


def main(given, room):
    model, rules = room / "model", room / "rules.toml"
    total = make_checkpoint.make(model, "gpt-oss", given.gigabytes)
    rules.write_text(RULES)
    for path in model.glob("*.safetensors"):
        path.read_bytes()
    print(f"{total / 1e9:.2f} GB of codes, scales and attention; {given.threads} threads")
    print("| what | s | GB/s of the file | peak MiB |\n|---|---|---|---|")
    unlimited = 1 << 62
    script = room / "convert.py"
    script.write_text(CONVERT)
    commands = {
        "import of transformers alone": [sys.executable, "-c", "import transformers.integrations.mxfp4, torch"],
        "transformers: dequantised, transposed": [sys.executable, script, model, str(given.threads)],
        "pack: dequantised, transposed, bfloat8_b, written": [
            *(given.tilewright, "pack", model, "--rules", rules, "-o", room / "out"),
            *("--max-memory", f"{given.max_memory}M", "--threads", str(given.threads)),
        ],
    }
    for name, command in commands.items():
        seconds, peak, _ = speed.pack(command, unlimited)
        rate = "" if "alone" in name else f"{total / seconds / 1e9:.2f}"
        print(f"| {name} | {seconds:.2f} | {rate} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gigabytes", type=float, default=1)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--max-memory", type=int, default=512)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--tilewright", type=Path, default=here / "../../target/release/tilewright")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-mxfp4-", dir=given.folder) as room:
        main(given, Path(room))

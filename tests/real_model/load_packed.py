#!/usr/bin/env python3
"""Packs a real model with `tilewright pack` and loads every file with ttnn. See README.md."""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from compare_ttnn import HERE, model_path


def made_by_ttnn(ttnn, weight, name):
    """The values that ttnn itself makes of a weight, in the type and the layout that the name of the file says."""
    dtype, layout = name.removesuffix(".tensorbin").rpartition("_dtype_")[2].split("_layout_")
    made = ttnn.from_torch(weight, dtype=getattr(ttnn, dtype.lower()), layout=getattr(ttnn, f"{layout}_LAYOUT"))
    return ttnn.to_torch(made)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=HERE.parents[1] / "target/release/tilewright")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--rules", default="ttnn-bfp8", help="a ready-made set or a file")
    args = parser.parse_args()

    os.environ.setdefault("TT_METAL_MOCK_CLUSTER_DESC_PATH", str(HERE / "n150.yaml"))
    os.environ.setdefault("TT_LOGGER_LEVEL", "error")
    os.environ.setdefault("LOGURU_LEVEL", "WARNING")
    import torch
    import ttnn
    from safetensors import safe_open

    model = args.model or model_path()
    with tempfile.TemporaryDirectory() as folder, safe_open(str(model), "pt") as weights:
        packed = Path(folder) / "packed"
        subprocess.run([args.binary, "pack", model, "--rules", args.rules, "-o", packed], check=True)
        outputs = json.loads((packed / "manifest.json").read_text())["outputs"]
        wrong, kinds = 0, {}
        for output in outputs:
            path = packed / output["file"]
            loaded = ttnn.load_tensor(str(path))
            wanted = made_by_ttnn(ttnn, weights.get_tensor(output["name"]), path.name)
            same = torch.equal(ttnn.to_torch(loaded), wanted)
            wrong += not same
            kinds[str(loaded.dtype)] = kinds.get(str(loaded.dtype), 0) + 1
            sha = hashlib.sha256(path.read_bytes()).hexdigest()
            print(f"{path.name} {output['shape']} {sha} {'equal' if same else 'DIFFERS'}", flush=True)
        skipped = sorted(set(weights.keys()) - {output["name"] for output in outputs})
    print(f"{len(outputs)} files loaded by ttnn, {wrong} of other values; {kinds}; left out: {skipped}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

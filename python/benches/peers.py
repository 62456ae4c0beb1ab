"""tilewright beside numpy, torch, oneDNN and ttnn: the same work, the same threads, by turns in one process.

Each piece of work is given to everybody who is installed and can do it; all results are compared byte for byte first. Rates
count the bytes of the source. What is printed is the best of a few turns and how many times as fast as each peer tilewright
is. In an environment of its own:

    python3.12 -m venv peers && peers/bin/pip install tilewright numpy torch onednn-cpu-gomp
    peers/bin/python python/benches/peers.py --json results.json

Threads of OpenMP wait without using their processors here (OMP_WAIT_POLICY=passive, unless it is set): as they do by default they
go on looking for work after each call, and whoever comes next shares all processors with them.

`onednn-cpu-gomp` is oneDNN's C library, called through ctypes. For ttnn (its own environment: it needs an older numpy), set
TT_METAL_MOCK_CLUSTER_DESC_PATH to tests/real_model/n150.yaml, which describes one device to it; only host code runs.
"""

import argparse
import ctypes
import json
import os
import platform
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

import tilewright

# Bytes of an element, the numbers that oneDNN has for the types, and what torch calls them.
TYPES = {"bf16": (2, 2, "bfloat16"), "f16": (2, 1, "float16"), "f32": (4, 3, "float32")}


class Work(NamedTuple):
    """A move: the source's elements as an array of shape `split`, whose axes lie in the destination in this `order`."""

    name: str
    source: str
    destination: str
    dtype: str
    into: str
    shape: tuple
    split: tuple
    order: tuple


def all_work(n):
    """Matrices of n x n, n a multiple of 64; tiles have four faces of 16 x 16."""
    t = n // 32
    rows, tiles = (t, 2, 16, t, 2, 16), (t, t, 2, 2, 16, 16)
    tile = "ttnn(dtype={}, layout=TILE)".format
    depth = 4
    sticks = (depth, n // depth, n // 64, 64)
    stick = f"device_size=[{n // depth}, {n // 64}, {depth}, 64], dim_map=[1, 2, 0, 2]"
    cube = f"{depth}x{n // depth}x{n}"
    return [
        Work("tilize bf16", f"memref<{n}x{n}xbf16>", tile("bfloat16"), "bf16", "bf16", (n, n), rows, (0, 3, 1, 4, 2, 5)),
        Work("untilize bf16", tile("bfloat16"), f"memref<{n}x{n}xbf16>", "bf16", "bf16", (n, n), tiles, (0, 2, 4, 1, 3, 5)),
        Work("f32 to bf16 tiles", f"memref<{n}x{n}xf32>", tile("bfloat16"), "f32", "bf16", (n, n), rows, (0, 3, 1, 4, 2, 5)),
        Work(
            "stickify f16, plain copy",
            f"memref<{cube}xf16>",
            f"SpyreTensorLayout({stick}, device_dtype=DataFormats.IEEE_FP16)",
            "f16",
            "f16",
            (depth, n // depth, n),
            sticks,
            (1, 2, 0, 3),
        ),
        Work("transpose 2-byte", f"memref<{n}x{n}xbf16>", f"memref<{n}x{n}xbf16, strided<[1, {n}]>>", "bf16", "bf16", (n, n), (n, n), (1, 0)),
        Work("transpose 4-byte", f"memref<{n}x{n}xf32>", f"memref<{n}x{n}xf32, strided<[1, {n}]>>", "f32", "f32", (n, n), (n, n), (1, 0)),
        Work("f32 to bfp8 tiles", f"memref<{n}x{n}xf32>", tile("bfloat8_b"), "f32", "bfp8", (n, n), rows, ()),
    ]


def numbers(count, dtype):
    """Finite numbers of mixed magnitude as bytes."""
    values = np.random.default_rng(1).standard_normal(count, np.float32)
    match dtype:
        case "f32":
            return values.view(np.uint8)
        case "f16":
            return values.astype(np.float16).view(np.uint8)
        case _:
            return np.ascontiguousarray(values.view(np.uint16)[1::2]).view(np.uint8)


def ours(work, source, out, threads):
    plan = tilewright.compile(work.source, work.destination, shape=work.shape, dtype=work.dtype)
    return lambda: plan(source, out, threads)


def with_numpy(work, source, out, threads):
    if threads > 1 or work.dtype != work.into:
        return None
    kind = np.dtype(f"u{TYPES[work.dtype][0]}")
    moved = source.view(kind).reshape(work.split).transpose(work.order)
    into = out.view(kind).reshape(moved.shape)
    return lambda: np.copyto(into, moved)


def with_torch(work, source, out, threads):
    if work.into not in TYPES:
        return None
    import torch

    torch.set_num_threads(threads)
    kinds = [getattr(torch, TYPES[name][2]) for name in (work.dtype, work.into)]
    moved = torch.from_numpy(source).view(kinds[0]).view(work.split).permute(work.order)
    into = torch.from_numpy(out).view(kinds[1]).view(moved.shape)
    return lambda: (torch.set_num_threads(threads), into.copy_(moved))


class OneDnn:
    """A reorder of oneDNN, through its C interface."""

    ARGUMENT = type("Argument", (ctypes.Structure,), {"_fields_": [("number", ctypes.c_int), ("memory", ctypes.c_void_p)]})

    def __init__(self):
        self.library = ctypes.CDLL(str(Path(sys.prefix) / "lib" / "libdnnl.so.3"))
        self.engine, self.stream = self.made("engine_create", 1, ctypes.c_size_t(0)), None
        self.stream = self.made("stream_create", self.engine, 1)

    def made(self, name, *arguments):
        handle = ctypes.c_void_p()
        status = getattr(self.library, f"dnnl_{name}")(ctypes.byref(handle), *arguments)
        if status != 0:
            raise OSError(f"dnnl_{name} returned {status}")
        return handle

    def memory(self, shape, strides, dtype, array):
        sizes = ctypes.c_int64 * len(shape)
        described = self.made("memory_desc_create_with_strides", len(shape), sizes(*shape), TYPES[dtype][1], sizes(*strides))
        return described, self.made("memory_create", described, self.engine, ctypes.c_void_p(array.ctypes.data))

    def __call__(self, work, source, out, threads):
        if work.into not in TYPES:
            return None
        # A reorder is made for as many threads as there are when it is made.
        self.library.omp_set_num_threads(threads)
        # Both sides have the axes of the source; only their strides differ.
        near = dense(work.split)
        moved = dense([work.split[axis] for axis in work.order])
        far = [moved[work.order.index(axis)] for axis in range(len(work.split))]
        from_described, from_memory = self.memory(work.split, near, work.dtype, source)
        to_described, to_memory = self.memory(work.split, far, work.into, out)
        described = self.made("reorder_primitive_desc_create", from_described, self.engine, to_described, self.engine, None)
        reorder = self.made("primitive_create", described)
        arguments = (self.ARGUMENT * 2)((1, from_memory), (17, to_memory))

        def run():
            self.library.dnnl_primitive_execute(reorder, self.stream, 2, arguments)
            self.library.dnnl_stream_wait(self.stream)

        return run


def dense(shape):
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def with_ttnn(work, source, out, threads):
    """ttnn takes as many threads as it likes, so that it is measured beside all of ours; it makes its result anew each time."""
    if work.into != "bfp8" or threads == 1:
        return None
    import torch
    import ttnn

    tensor = torch.from_numpy(source).view(torch.float32).view(work.shape)

    def run():
        return ttnn.from_torch(tensor, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, tile=ttnn.Tile((32, 32)))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tensorbin"
        ttnn.dump_tensor(str(path), run())
        file = path.read_bytes()
    payload = np.frombuffer(file, np.uint8)[8 + int.from_bytes(file[:8], "little") :]
    out[:] = payload
    return run


def peers():
    """Who is installed, by name."""
    found = {"numpy": with_numpy}
    for name, make in [("torch", lambda: with_torch), ("oneDNN", OneDnn), ("ttnn", lambda: with_ttnn)]:
        try:
            if name in ("torch", "ttnn"):
                __import__(name)
            found[name] = make()
        except (ImportError, OSError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def measure(calls, turns):
    """The shortest time of each call, all of them by turns."""
    shortest = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            shortest[name] = min(shortest[name], time.perf_counter() - begun)
    return shortest


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size", type=int, default=8192, help="side of the matrices, a multiple of 256")
    arguments.add_argument("--turns", type=int, default=7)
    arguments.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = arguments.parse_args()
    if arguments.size < 256 or arguments.size % 256:
        sys.exit(f"--size: given {arguments.size}, needed a multiple of 256")
    everybody, rows, wrong = peers(), [], False
    every = os.cpu_count() or 1
    print(f"{'work':<26} {'threads':>7} {'ours GB/s':>10}   peers: GB/s (ours / theirs)")
    for work in all_work(arguments.size):
        source = numbers(int(np.prod(work.shape)), work.dtype)
        plan = tilewright.compile(work.source, work.destination, shape=work.shape, dtype=work.dtype)
        for threads in sorted({1, every}):
            out = {name: np.zeros(plan.destination_bytes, np.uint8) for name in ["tilewright", *everybody]}
            calls = {"tilewright": ours(work, source, out["tilewright"], threads)}
            for name, make in everybody.items():
                call = make(work, source, out[name], threads)
                if call is not None:
                    calls[name] = call
            shortest = measure(calls, arguments.turns)
            same = {name: bool(np.array_equal(out[name], out["tilewright"])) for name in calls}
            wrong |= not all(same.values())
            rate = {name: source.nbytes / seconds / 1e9 for name, seconds in shortest.items()}
            told = [
                f"{name} {rate[name]:.1f} ({rate['tilewright'] / rate[name]:.2f})" + ("" if same[name] else " OTHER BYTES")
                for name in calls
                if name != "tilewright"
            ]
            print(f"{work.name:<26} {threads:>7} {rate['tilewright']:>10.1f}   {', '.join(told)}", flush=True)
            rows.append({"work": work.name, "threads": threads, "gb_per_s": rate, "same_bytes": same})
    if arguments.json:
        head = {"date": date.today().isoformat(), "cpu": cpu(), "size": arguments.size, "rows": rows}
        arguments.json.write_text(json.dumps(head, indent=2) + "\n")
    return 1 if wrong else 0


def cpu():
    """What the system calls the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


if __name__ == "__main__":
    sys.exit(main())

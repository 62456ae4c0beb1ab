"""Packs a checkpoint with the workers of a Ray cluster, each its share, into one directory that all of them see.

    pip install ray                                            # and tilewright, on every machine
    python pack_with_ray.py model/ ttnn-bfp8 packed --workers 4
    python pack_with_ray.py model/ ttnn-bfp8 packed --workers 32 --address auto      # a cluster that runs already

Without `--address` it starts a cluster on this machine, with a process for each worker. `--compare` packs once more in
this process alone and compares every file. What one worker has made stays when another fails: run it again.
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray

import tilewright


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
class Packer:
    """A worker: a process of its own on some machine of the cluster."""

    def pack(self, model, rules, out, rank, world, max_memory):
        report = tilewright.pack(
            model, rules, out, rank=rank, world=world, max_memory=max_memory, resume=True, threads=1
        )
        return os.getpid(), report.made, report.kept, report.bytes


def contents(directory):
    """The files of a directory, but those that say how the work was shared."""
    paths = (path for path in Path(directory).iterdir() if not path.name.startswith(".tilewright-"))
    return {path.name: path.read_bytes() for path in paths if "-of-" not in path.name}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("rules")
    parser.add_argument("out")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--max-memory", default="2GiB", help="of each worker")
    parser.add_argument("--address", help="of a cluster that runs already")
    parser.add_argument("--compare", action="store_true", help="with what one process makes")
    args = parser.parse_args()

    if args.address:
        ray.init(args.address)
    else:
        ray.init(num_cpus=args.workers, include_dashboard=False)
    model, out = Path(args.model).resolve(), Path(args.out).resolve()
    # A name, or a file whose text every worker gets.
    rules = Path(args.rules).read_text() + "\n" if Path(args.rules).is_file() else args.rules
    workers = [Packer.remote() for _ in range(args.workers)]
    shares = [
        worker.pack.remote(str(model), rules, str(out), rank, args.workers, args.max_memory)
        for rank, worker in enumerate(workers)
    ]
    made = ray.get(shares)
    for rank, (process, files, kept, size) in enumerate(made):
        print(f"worker {rank} (process {process}): {files} files of {size} bytes, {kept} were there already")
    print(f"{len({process for process, *_ in made})} processes, {sum(share[1] for share in made)} files in {out}")
    ray.shutdown()

    if args.compare:
        with tempfile.TemporaryDirectory() as folder:
            tilewright.pack(model, rules, folder)
            one, many = contents(folder), contents(out)
        if one != many:
            raise SystemExit(f"differs from what one process makes: {sorted(one.keys() ^ many.keys())}")
        print(f"{len(one)} files are those that one process makes, byte for byte")


if __name__ == "__main__":
    main()

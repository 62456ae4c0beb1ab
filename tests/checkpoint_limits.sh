#!/usr/bin/env bash
# Packs checkpoints that are made on the spot under ceilings of memory, and prints time and peak resident memory. By hand:
#
#     cargo build --release -p tilewright-cli
#     tests/checkpoint_limits.sh [MiB of the checkpoints, 1024 unless given]
#
# Fails where the peak is more than 64 MiB above the ceiling, where bytes depend on the ceiling or the threads, or where a
# full disk leaves something half-written. Needs python3 and GNU time; the full disk is tried where tmpfs can be mounted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tilewright=$PWD/target/release/tilewright
size=${1:-1024}
room=$(mktemp -d "${TMPDIR:-/tmp}/tilewright-limits.XXXXXX")
trap 'umount "$room/full" 2>/dev/null || true; rm -rf "$room"' EXIT

gigabytes=$(python3 -c "print($size * 2**20 / 1e9)")
python3 tests/packing/make_checkpoint.py "$room/llama" --gigabytes "$gigabytes"
python3 tests/packing/make_checkpoint.py "$room/gpt-oss" --gigabytes "$gigabytes" --kind gpt-oss
cat >"$room/gpt-oss.toml" <<'TOML'
[[rule]]
name = "*"
dtype = "bfloat8_b"
[[rule]]
name = "*.experts.*_proj"
dtype = "bfloat8_b"
transpose = true
TOML

pack() { # model, rules, ceiling in MiB, threads
    local out=$room/out-$3-$4 report peak
    rm -rf "$out"
    sync
    # The limit on addresses would end a process that holds a whole model; threads and the program itself have some too.
    (
        ulimit -v $((($3 + 1024) * 1024))
        /usr/bin/time -f '%e %M' -o "$room/time" \
            "$tilewright" pack "$room/$1" --rules "$2" -o "$out" --max-memory "$3M" --threads "$4" >"$room/said"
    )
    read -r report peak <"$room/time"
    peak=$((peak / 1024))
    printf '%-20s ceiling %5d MiB  %d threads  peak %5d MiB  %7.2f s  %s\n' \
        "$1" "$3" "$4" "$peak" "$report" "$(tail -n 1 "$room/said")"
    if ((peak > $3 + 64)); then
        echo "the peak is more than 64 MiB above the ceiling" >&2
        exit 1
    fi
    "$tilewright" verify "$out" >/dev/null
    (cd "$out" && sha256sum -- * | sha256sum) >"$room/sum"
    rm -rf "$out"
    if [[ -e $room/$1.sum ]] && ! cmp -s "$room/sum" "$room/$1.sum"; then
        echo "$1: bytes depend on the ceiling or the threads" >&2
        exit 1
    fi
    mv "$room/sum" "$room/$1.sum"
}

bytes=$(du -sb "$room/llama" | cut -f 1)
begin=$(date +%s.%N)
cat "$room"/llama/*.safetensors >/dev/null
head -c $((bytes * 17 / 32)) /dev/zero | dd of="$room/written" bs=32M iflag=fullblock conv=fsync 2>/dev/null
printf 'reading %d bytes and writing 17/32 of them, one after the other: %.2f s\n' "$bytes" \
    "$(python3 -c "import sys; print($(date +%s.%N) - $begin)")"
rm "$room/written"

for ceiling in 32 128 512; do
    pack llama ttnn-bfp8 $ceiling 2
done
pack llama ttnn-bfp8 512 1
# Less than the two windows of an expert as it is: the lower ones read it in panels.
for ceiling in 24 48 160 512; do
    pack gpt-oss "$room/gpt-oss.toml" $ceiling 2
done

mkdir "$room/full"
if mount -t tmpfs -o size=100M tmpfs "$room/full" 2>/dev/null; then
    if "$tilewright" pack "$room/llama" --rules ttnn-bfp8 -o "$room/full/out" 2>"$room/said"; then
        echo 'a full disk was not noticed' >&2
        exit 1
    fi
    cat "$room/said"
    if [[ -e $room/full/out/manifest.json ]]; then
        echo 'a full disk left a manifest' >&2
        exit 1
    fi
    # What the journal names is complete.
    python3 - "$room/full/out" <<'PYTHON'
import json, pathlib, sys

out = pathlib.Path(sys.argv[1])
lines = (out / ".tilewright-journal").read_text().splitlines()
sizes = {record["file"]: record["bytes"] for record in map(json.loads, lines)}
there = {path.name: path.stat().st_size for path in out.glob("*.tensorbin")}
assert sizes == there, (sizes, there)
print(f"a full disk left {len(there)} complete files and nothing else")
PYTHON
else
    echo 'skipped: a tmpfs for the full disk cannot be mounted here' >&2
fi

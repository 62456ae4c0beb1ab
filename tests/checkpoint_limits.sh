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

python3 - "$room" "$size" <<'PYTHON'
import json, os, pathlib, random, sys

room, mib = pathlib.Path(sys.argv[1]), int(sys.argv[2])
piece = bytearray(random.Random(7).randbytes(1 << 20))
values = bytes(piece)
# Values of about one, as bf16.
for i in range(1, len(piece), 2):
    piece[i] = 0x3E | piece[i] & 0x81
values, codes, scales = bytes(piece), values, bytes([120, 121, 122, 123]) * (1 << 18)


def save(path, tensors):
    header, at = {}, 0
    for name, dtype, shape, _ in tensors:
        n = 1
        for extent in shape:
            n *= extent
        n *= 2 if dtype == "BF16" else 1
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, _, _, source in tensors:
            begin, end = header[name]["data_offsets"]
            left = end - begin
            while left > 0:
                file.write(source[:left])
                left -= min(left, len(source))


llama, weights = room / "llama", {}
llama.mkdir()
layers = max(1, mib // 4 // 130)
for shard in range(4):
    tensors = []
    for i in range(layers):
        at = f"model.layers.{shard * layers + i}"
        tensors.append((f"{at}.input_layernorm.weight", "BF16", [4096], values))
        tensors.append((f"{at}.self_attn.q_proj.weight", "BF16", [4096, 4096], values))
        tensors.append((f"{at}.mlp.down_proj.weight", "BF16", [4096, 12288], values))
    name = f"model-{shard}.safetensors"
    save(llama / name, tensors)
    weights |= {tensor[0]: name for tensor in tensors}
(llama / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))

# A layer of 32 experts of 5760 by 2880: 265 MB of codes, four times as much when decoded.
tensors = []
for i in range(max(1, mib // 1100)):
    at = f"model.layers.{i}.mlp.experts.gate_up_proj"
    tensors.append((f"{at}_blocks", "U8", [32, 5760, 90, 16], codes))
    tensors.append((f"{at}_scales", "U8", [32, 5760, 90], scales))
save(room / "gpt-oss.safetensors", tensors)
(room / "gpt-oss.toml").write_text(
    '[[rule]]\nname = "*gate_up_proj"\ndtype = "bfloat8_b"\ntranspose = true\nsplit = []\n'
)
PYTHON

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
for ceiling in 160 512; do
    pack gpt-oss.safetensors "$room/gpt-oss.toml" $ceiling 2
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

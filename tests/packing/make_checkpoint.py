"""Makes a checkpoint of a given size, with the shapes of real ones and values drawn once. Needs nothing but Python.

    python make_checkpoint.py DIR --gigabytes 8 [--kind llama | gpt-oss] [--shards 4]

`llama`: bf16, the layers of an 8-billion model (436 MB each) and an embedding. `gpt-oss`: layers of 32 experts whose
weights are MXFP4 (424 MB each), with bf16 attention. At least one layer is made. Tensors are cut into shards at their
bytes, beside `model.safetensors.index.json`, as the tools of transformers write them.
"""

import argparse
import json
import random
from pathlib import Path

PIECE = 16 << 20


def values(kind):
    """PIECE bytes that repeat: bf16 of about one, codes of MXFP4, or scales of about one."""
    noise = bytearray(random.Random(kind).randbytes(PIECE))
    if kind == "BF16":
        # The upper byte: a sign, and exponents 126 and 127.
        noise[1::2] = noise[1::2].translate(bytes(0x3E | b & 0x81 for b in range(256)))
    elif kind == "scales":
        noise = noise.translate(bytes(119 + b % 4 for b in range(256)))
    return bytes(noise)


def llama(layers):
    """Names, dtypes, shapes and kinds of values of all tensors, in order."""
    hidden, inner, kv, vocabulary = 4096, 14336, 1024, 32000
    yield "model.embed_tokens.weight", "BF16", (vocabulary, hidden), "BF16"
    for i in range(layers):
        at = f"model.layers.{i}"
        yield f"{at}.input_layernorm.weight", "BF16", (hidden,), "BF16"
        for name, rows in (("q", hidden), ("k", kv), ("v", kv), ("o", hidden)):
            yield f"{at}.self_attn.{name}_proj.weight", "BF16", (rows, hidden), "BF16"
        yield f"{at}.post_attention_layernorm.weight", "BF16", (hidden,), "BF16"
        for name, rows, columns in (("gate", inner, hidden), ("up", inner, hidden), ("down", hidden, inner)):
            yield f"{at}.mlp.{name}_proj.weight", "BF16", (rows, columns), "BF16"
    yield "model.norm.weight", "BF16", (hidden,), "BF16"


def gpt_oss(layers):
    hidden, experts, heads = 2880, 32, 4096
    for i in range(layers):
        at = f"model.layers.{i}"
        yield f"{at}.self_attn.q_proj.weight", "BF16", (heads, hidden), "BF16"
        for name, rows in (("gate_up_proj", 2 * hidden), ("down_proj", hidden)):
            weight = f"{at}.mlp.experts.{name}"
            yield f"{weight}_blocks", "U8", (experts, rows, hidden // 32, 16), "codes"
            yield f"{weight}_scales", "U8", (experts, rows, hidden // 32), "scales"
            yield f"{weight}_bias", "BF16", (experts, rows), "BF16"


KINDS = {"llama": llama, "gpt-oss": gpt_oss}


def size(dtype, shape):
    bytes_ = 2 if dtype == "BF16" else 1
    for extent in shape:
        bytes_ *= extent
    return bytes_


def save(path, tensors, source):
    """One file. Each tensor begins elsewhere in the values that repeat, so that no two are equal."""
    header, at = {}, 0
    for name, dtype, shape, _ in tensors:
        end = at + size(dtype, shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path, "wb", buffering=0) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, dtype, shape, kind in tensors:
            left, at = size(dtype, shape), hash_of(name) % (PIECE // 64) * 64
            data = memoryview(source[kind])
            while left > 0:
                left -= file.write(data[at : at + left])
                at = 0


def hash_of(name):
    return random.Random(name).getrandbits(32)


def make(folder, kind, gigabytes, shards=4):
    """The bytes of all tensors, written to shards in a folder that is made."""
    shapes = KINDS[kind]
    total = lambda n: sum(size(dtype, shape) for _, dtype, shape, _ in shapes(n))
    layer = total(2) - total(1)
    layers = max(1, round((gigabytes * 1e9 - total(1)) / layer) + 1)
    tensors, wanted = list(shapes(layers)), total(layers)
    source = {kind: values(kind) for kind in {tensor[3] for tensor in tensors}}
    folder.mkdir(parents=True)
    weights, at, parts = {}, 0, [[] for _ in range(shards)]
    for tensor in tensors:
        parts[min(at * shards // wanted, shards - 1)].append(tensor)
        at += size(*tensor[1:3])
    for i, part in enumerate(filter(None, parts)):
        name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        save(folder / name, part, source)
        weights |= {tensor[0]: name for tensor in part}
    index = {"metadata": {"total_size": wanted}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return wanted


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--gigabytes", type=float, default=8)
    arguments.add_argument("--kind", choices=KINDS, default="llama")
    arguments.add_argument("--shards", type=int, default=4)
    given = arguments.parse_args()
    print(make(given.folder, given.kind, given.gigabytes, given.shards), "bytes of tensors")

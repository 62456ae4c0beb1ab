"""Makes tests/data/*.json: blocks of random bytes, and what the projects that own the formats make of them.

    pip install gguf==0.19 torch transformers
    python tests/goldens.py
"""

import json
import pathlib

import gguf
import numpy as np
from gguf.quants import dequantize

HERE = pathlib.Path(__file__).parent / "data"
TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4".split()
BLOCKS = 4


def finite(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all())


def blocks() -> None:
    rng = np.random.default_rng(7)
    cases = {}
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        found = []
        while len(found) < BLOCKS:
            data = rng.integers(0, 256, size, dtype=np.uint8)
            values = dequantize(data.reshape(1, size), kind).astype(np.float32).reshape(-1)
            # NaN has many encodings; what is compared is every bit of the others.
            if finite(values):
                found.append((data.tobytes().hex(), values.astype("<f4").tobytes().hex()))
        cases[name] = {"number": int(kind), "elements": elements, "blocks": found}
    (HERE / "gguf_blocks.json").write_text(json.dumps(cases, indent=0))


def mxfp4() -> None:
    import torch
    from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(7)
    codes = torch.randint(0, 256, (2, 3, 2, 16), dtype=torch.uint8, generator=generator)
    scales = torch.randint(0, 255, (2, 3, 2), dtype=torch.uint8, generator=generator)
    # [E, K, N]: transposed, as the experts are used.
    values = _convert_moe_packed_tensors(codes, scales, dtype=torch.bfloat16)
    bits = values.transpose(1, 2).contiguous().view(torch.int16).numpy()
    case = {
        "codes": codes.numpy().tobytes().hex(),
        "scales": scales.numpy().tobytes().hex(),
        "values": bits.astype("<i2").tobytes().hex(),
    }
    (HERE / "mxfp4.json").write_text(json.dumps(case))


def fp8() -> None:
    import torch
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    generator = torch.Generator().manual_seed(7)
    codes = torch.randint(0, 256, (4, 256), dtype=torch.uint8, generator=generator)
    # Codes of all ones below the sign are NaN, which has many encodings.
    codes[(codes & 127) == 127] = 0
    dequantize = Fp8Dequantize.__new__(Fp8Dequantize)._dequantize_one
    cases = []
    for scales in (torch.rand((2, 2), generator=generator), torch.randint(100, 150, (2, 2), dtype=torch.uint8)):
        values = dequantize(codes.view(torch.float8_e4m3fn), scales, torch.bfloat16)
        cases.append(
            {
                "codes": codes.numpy().tobytes().hex(),
                "scales": scales.numpy().tobytes().hex(),
                "values": values.view(torch.int16).numpy().astype("<i2").tobytes().hex(),
            }
        )
    (HERE / "fp8.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    blocks()
    mxfp4()
    fp8()

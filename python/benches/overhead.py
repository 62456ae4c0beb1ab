"""What a call through Python costs, in microseconds: whole calls on tensors so small that the conversion is almost nothing.

Each figure holds the conversion too, so that the overhead of Python is less than it. Torch is measured where it is installed.
"""

import timeit

import numpy as np

import tilewright


def best(call, number=200, repeat=500):
    # Each repetition is shorter than a slice of a processor's time: the best one was not interrupted.
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e6


def main():
    cases = {}
    try:
        import ml_dtypes

        x = np.zeros((32, 32), ml_dtypes.bfloat16)
        halves = tilewright.compile(x, "ttnn(dtype=bfloat16, layout=TILE)")
        into = halves(x)
        cases["plan(x, out)          numpy 32x32 bf16 to bf16 tiles"] = lambda x=x: halves(x, into)
    except ImportError:
        pass
    for shape in ((1, 1), (32, 32)):
        x = np.zeros(shape, np.float32)
        plan = tilewright.compile(x, "ttnn(dtype=bfloat16, layout=TILE)")
        copy = tilewright.compile(x, None)
        tiles, same = plan(x), copy(x)
        name = "x".join(map(str, shape))
        cases[f"plan(x, out)          numpy {name} f32, copied"] = lambda c=copy, x=x, o=same: c(x, o)
        cases[f"plan(x, out)          numpy {name} f32 to bf16 tiles"] = lambda p=plan, x=x, o=tiles: p(x, o)
        cases[f"plan(x)               numpy {name} f32 to bf16 tiles"] = lambda p=plan, x=x: p(x)
        cases[f"tilize(x, 'bfloat16') numpy {name} f32 to bf16 tiles"] = lambda x=x: tilewright.tilize(x, "bfloat16")
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None:
        x = torch.zeros(32, 32, dtype=torch.bfloat16)
        plan = tilewright.compile(x, "ttnn(dtype=bfloat16, layout=TILE)")
        tiles = plan(x)
        cases["plan(x, out)          torch 32x32 bf16 to bf16 tiles"] = lambda: plan(x, tiles)
        cases["plan(x.T, out)        torch 32x32 bf16 to bf16 tiles"] = lambda t=x.T: plan(t, tiles)
        cases["tilize(x)             torch 32x32 bf16 to bf16 tiles"] = lambda: tilewright.tilize(x)
    for name, call in cases.items():
        print(f"{best(call):6.2f} us  {name}", flush=True)


if __name__ == "__main__":
    main()

"""Plans: chunks, threads, questions, and the command line."""

import base64
import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright

TILES = "ttnn(dtype=bfloat8_b, layout=TILE)"


@pytest.fixture(scope="module")
def large():
    x = np.random.default_rng(3).standard_normal((2048, 1024)).astype("f4")
    plan = tilewright.compile(x, TILES)
    return x, plan, plan(x, threads=1)


def test_threads_do_not_change_bytes(large):
    x, plan, expected = large
    for threads in (None, 1, 2, 3, 16):
        np.testing.assert_array_equal(plan(x, threads=threads), expected)
    for threads in (0, 1025):
        with pytest.raises(tilewright.Error, match="1 to 1024"):
            plan(x, threads=threads)


def test_many_threads_call_one_plan(large):
    x, plan, expected = large
    results = {}

    def work(i):
        view = x if i % 2 else x[:, ::-1][:, ::-1]
        results[i] = plan(view, threads=1 + i % 3)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 8 and all(np.array_equal(r, expected) for r in results.values())


def test_the_interpreter_is_free_meanwhile(large):
    x, plan, expected = large
    out = np.empty_like(expected)
    running, count = True, 0

    def count_up():
        nonlocal count
        while running:
            count += 1
            time.sleep(0)

    # A thread that holds the interpreter is only interrupted after this long: longer than all the calls.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    other = threading.Thread(target=count_up)
    try:
        other.start()
        before = count
        for _ in range(50):
            plan(x, out, threads=1)
        assert count > before
    finally:
        running = False
        sys.setswitchinterval(interval)
        other.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_has_threads_of_its_own(large):
    x, plan, expected = large
    plan(x, threads=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(plan(x, threads=2), expected) else 1)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        pytest.fail("the child hangs")
    assert status == 0


def test_chunks(large):
    x, plan, expected = large
    for size in (1, 1088, 100_000, 1 << 30):
        parts = list(plan.chunks(size)) if size > 1 else list(plan.chunks(size))[:3]
        pieces = [plan.chunk(x, part) for part in parts]
        whole = np.concatenate(pieces)
        np.testing.assert_array_equal(whole, expected.reshape(-1)[: whole.size])
        assert size == 1 or whole.size == expected.size
    out = np.empty(1088, np.uint8)
    assert plan.chunk(x, range(1088, 2176), out) is out
    np.testing.assert_array_equal(out, expected[0, 1088:2176])
    for wrong in (range(1, 1088), range(0, 1 << 40), range(0, 4, 2), range(2176, 1088)):
        with pytest.raises(tilewright.Error):
            plan.chunk(x, wrong)


def test_locate_and_owner_agree():
    plan = tilewright.compile("memref<40x50xf32>", TILES)
    for index in ((0, 0), (39, 49), (17, 33)):
        (place,) = plan.locate(index)
        assert index in [tuple(i) for i in plan.owner(place.buffer, place.byte).elements]
        assert index in [tuple(i) for i in plan.owner(place.buffer, place.shared).elements]
    assert plan.owner(0, 4 * 1088 - 1).kind == "padding"
    assert tilewright.locate(TILES, (40, 50), "f32", (17, 33)) == plan.locate((17, 33))
    places = tilewright.locate(None, (4,), "f32", (1,), mesh="ReplicateTensorToMesh(mesh_shape=(1, 3))")
    assert [(p.buffer, p.byte) for p in places] == [(0, 4), (1, 4), (2, 4)]
    with pytest.raises(tilewright.Error, match="index"):
        plan.locate((40, 0))
    with pytest.raises(tilewright.Error, match="place"):
        plan.owner(1, 0)


def test_explain():
    plan = tilewright.compile("memref<40x50xf32>", TILES)
    assert plan.info["buffer_bytes"] == plan.destination_bytes == 4 * 1088
    assert plan.info["padding_elements"] == 64 * 64 - 40 * 50
    text = tilewright.explain(TILES, (40, 50), np.float32)
    assert text == plan.explain() and "[64, 64]" in text and "pack bfloat8_b" in text
    assert repr(plan).startswith("<Plan: 40x50 f32 to ttnn(")


def test_what_a_plan_is_of():
    with pytest.raises(tilewright.Error, match="shape: given none"):
        tilewright.compile(TILES, "ttnn(dtype=bfloat16, layout=TILE)")
    plan = tilewright.compile(TILES, "ttnn(dtype=float32, layout=TILE)", shape=(32, 32), dtype="f32")
    assert plan(bytes(1088)).tobytes() == bytes(4096)
    with pytest.raises(tilewright.Error, match="1088 bytes"):
        plan(bytes(1087))
    plan = tilewright.compile(TILES, "memref<3x4xf16>")
    assert (plan.shape, plan.dtype, plan.source_bytes) == ((3, 4), "f16", 1088)
    assert plan(bytes(1088)).dtype == np.float16
    with pytest.raises(tilewright.Error, match=r"shape \[3, 4\] of f32"):
        tilewright.compile("memref<3x4xf32>", None)(np.zeros((4, 3), "f4"))
    with pytest.raises(tilewright.Error, match="no conversion from i32 to bfloat8_b"):
        tilewright.tilize(np.zeros((4, 4), "i4"), "bfloat8_b")
    with pytest.raises(tilewright.Error, match="2\\^63"):
        tilewright.compile("memref<9223372036854775807x9223372036854775807xf32>", None)
    with pytest.raises(tilewright.Error, match="shape: given .* beside an array") as caught:
        tilewright.compile(np.zeros(3, "f4"), None, shape=(3,))
    assert caught.value.code == 2
    for choice in ("rounding", "codec"):
        with pytest.raises(tilewright.Error, match=choice):
            tilewright.compile("memref<3xf32>", None, **{choice: "best"})


def test_choices_between_rules():
    x = np.random.default_rng(9).standard_normal((32, 32)).astype("f4")
    small = TILES.replace("8", "4")
    packed = {
        name: tilewright.convert(x, small, **choice).tobytes()
        for name, choice in {
            "host": {},
            "device": {"rounding": "device"},
            "device-op": {"rounding": "device-op"},
            "truncate": {"rounding": "truncate"},
            "search": {"search": True},
        }.items()
    }
    assert len(set(packed.values())) == 5
    negative_zero = bytes([127] * 64 + [0x80] * 1024)
    tiles = np.frombuffer(negative_zero, "u1")
    unpacked = {
        choice: tilewright.compile(TILES, None, shape=(32, 32), dtype="f32", compat_unpack=choice)(tiles)
        for choice in (False, True, "device")
    }
    assert np.signbit(unpacked[False]).all() and (unpacked[True] == 0).all()
    assert (unpacked["device"] == -np.inf).all()
    assert tilewright.tilize(x, "bfloat4_b", search=True).tobytes() == packed["search"]
    with pytest.raises(tilewright.Error, match="300") as caught:
        tilewright.convert(np.array([300], "i4"), "memref<1xi8>")
    assert caught.value.code == 8
    assert tilewright.convert(np.array([300], "i4"), "memref<1xi8>", saturate=True) == [127]


def test_padding_has_the_sign_that_was_given():
    for value in (0.0, -0.0, 0.0):
        tile = tilewright.tilize(np.ones((1, 1), "f4"), pad_value=value).view("f4")
        assert np.signbit(tile[0, -1]) == np.signbit(value)


def run(*arguments):
    command = [sys.executable, "-m", "tilewright", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_command_line(tmp_path):
    version = run("--version")
    assert version.returncode == 0 and version.stdout.startswith(f"tilewright {tilewright.__version__}\n")
    x = np.random.default_rng(5).standard_normal((40, 50)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    done = run("convert", str(tmp_path / "x.npy"), "--to", TILES, "--out", str(tmp_path / "x.bin"), "--check")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.bin").read_bytes() == tilewright.tilize(x, "bfloat8_b").tobytes()
    wrong = run("explain", "--shape", "2", "--dtype", "f32", "--to", "nothing")
    assert wrong.returncode == 2 and wrong.stdout == "" and wrong.stderr.startswith("error: ")
    assert run("--help").returncode == 0 and run("--wrong").returncode == 2


def test_torch_is_not_imported():
    code = "import sys, tilewright; sys.exit(any(m in sys.modules for m in ('torch', 'jax', 'ml_dtypes')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


METAL = (
    "tensor<53x63xf32, #ttcore.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, "
    "memref<1x1x!ttcore.tile<32 x 32, f32>, #l1>>>"
)


def test_shape_and_dtype_are_what_a_text_says():
    x = np.arange(53 * 63, dtype="f4").reshape(53, 63)
    packed = tilewright.convert(x, METAL)
    for source, to, options in [
        (None, METAL, {}),
        (None, METAL, {"shape": (53, 63)}),
        (METAL, None, {}),
        (METAL, None, {"dtype": "f32"}),
        (METAL, "memref<53x63xf32>", {}),
    ]:
        plan = tilewright.compile(source, to, **options)
        assert (plan.shape, plan.dtype) == ((53, 63), "f32")
        given, made = (x, packed) if source is None else (packed, x)
        np.testing.assert_array_equal(plan(given), made)
    for source, to, options, match in [
        (None, "ttnn(dtype=bfloat16, layout=TILE)", {}, "shape"),
        (None, "ttnn(dtype=bfloat16, layout=TILE)", {"shape": (53, 63)}, "dtype"),
        # On a mesh the text is of what one device gets.
        (None, METAL, {"mesh": "ReplicateTensorToMesh(mesh_shape=(1, 2))"}, "shape"),
    ]:
        with pytest.raises(tilewright.Error, match=match):
            tilewright.compile(source, to, **options)


def test_plans_and_layouts_travel_as_their_texts():
    """To other processes, and as copies."""
    x = np.arange(40 * 50, dtype="f4").reshape(40, 50)
    tiles = "ttnn(dtype=bfloat8_b, layout=TILE)"
    plans = [
        tilewright.compile(x, tiles, pad_value=-0.0, rounding="truncate"),
        tilewright.compile(tiles, None, shape=(40, 50), dtype="f32", compat_unpack=True),
        tilewright.compile(x, tiles, mesh="ShardTensorToMesh(mesh_shape=(1, 2), dim=0)"),
    ]
    for plan in plans:
        source = x if plan.source_bytes == x.nbytes else np.arange(plan.source_bytes, dtype="u1") % 120
        for again in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
            assert again.info == plan.info
            np.testing.assert_array_equal(again(source), plan(source))
    # Another process has nothing but what was sent.
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).info['to'])"
    ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(plans[0]), capture_output=True, check=True)
    assert ran.stdout.decode().strip() == plans[0].info["to"]
    for text in ("memref<2x3xf32>", tiles, "SpyreTensorLayout((5, 100, 150), torch.float16, [1, 0, 2])"):
        layout = tilewright.Layout(text)
        assert pickle.loads(pickle.dumps(layout)) == layout == copy.copy(layout)


@pytest.mark.parametrize("shape", [(), (0, 3), (53, 63), (2, 3, 64, 128), (4096, 4096), (20000, 30011)])
def test_a_notebook_shows_pictures_of_bounded_size(shape):
    plan = tilewright.compile(None, "ttnn(dtype=bfloat16, layout=TILE)", shape=shape, dtype="f32")
    html = plan._repr_html_()
    assert len(html) < 140_000
    assert html.startswith(("<img ", "<code>")) and "<script" not in html
    if 0 not in shape and len(shape) > 1:
        image = base64.b64decode(html.partition("base64,")[2].rpartition('"')[0]).decode()
        assert image.startswith("<svg") and "ttnn(dtype=bfloat16" in image


def test_a_layout_shows_its_picture_where_it_says_its_tensor():
    assert tilewright.Layout("memref<20x30xf32>")._repr_html_().startswith("<img ")
    assert tilewright.Layout("ttnn(dtype=bfloat16, layout=TILE)")._repr_html_().startswith("<code>ttnn(")
    # Elements at one place, and rows that no memory has room for.
    for text in ("memref<2x3xf32, strided<[0, 1]>>", f"memref<{2**40}x{2**20}xf32>"):
        html = tilewright.Layout(text)._repr_html_()
        assert html.startswith("<code>memref&lt;"), html


def test_layouts_are_drawn_into_files(tmp_path):
    plan = tilewright.compile("memref<40x50xf32>", "ttnn(dtype=bfloat8_b, layout=TILE)")
    image, page = tmp_path / "a.svg", str(tmp_path / "a.html")
    tilewright.draw(plan, image)
    tilewright.draw("ttnn(dtype=bfloat16, layout=TILE)", page, (40, 50), np.float32, mesh="ReplicateTensorToMesh(mesh_shape=(1, 2))")
    assert image.read_text().startswith("<svg") and Path(page).read_text().startswith("<!doctype html>")
    for wrong in ({"path": "a.png"}, {"shape": (40, 50)}, {"dtype": "f32"}, {"mesh": "x"}):
        with pytest.raises(tilewright.Error):
            tilewright.draw(plan, **{"path": image, **wrong})
    with pytest.raises(tilewright.Error, match="shape"):
        tilewright.draw("ttnn(dtype=bfloat16, layout=TILE)", image)

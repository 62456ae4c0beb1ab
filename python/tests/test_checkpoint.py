"""Whole checkpoints: what arrives, in files or in a loop, is what `convert` makes of each tensor alone."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright

RULES = """
[[rule]]
name = "*"
layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
[[rule]]
name = "*.norm"
layout = "memref<{shape}xf32>"
[[rule]]
name = "turned"
layout = "SpyreTensorLayout(({dims}), torch.float16)"
transpose = true
[[rule]]
name = "wide"
layout = "ttnn(dtype=bfloat8_b, layout=TILE)"
mesh = "ShardTensorToMesh(mesh_shape=(1, 4), dim=1)"
[[rule]]
name = "ids"
skip = true
"""

RANDOM = np.random.default_rng(12)
SHAPES = {"a": (100, 96), "a.norm": (77,), "turned": (300, 70), "wide": (64, 640), "ids": (3,), "z": (5, 64, 64)}
TENSORS = {
    name: RANDOM.standard_normal(shape).astype("f2" if name == "turned" else "f4") for name, shape in SHAPES.items()
}


def safetensors(path, tensors):
    """A file of these arrays, in this order."""
    header, data = {}, b""
    for name, x in tensors.items():
        at = len(data)
        data += x.tobytes()
        kind = {"f": "F", "i": "I"}[x.dtype.kind]
        header[name] = {"dtype": f"{kind}{8 * x.itemsize}", "shape": x.shape, "data_offsets": [at, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return safetensors(tmp_path_factory.mktemp("model") / "m.safetensors", TENSORS)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """32 tensors of 1 MiB."""
    tensors = {f"t{i:02}": np.full((512, 512), i, "f4") for i in range(32)}
    return safetensors(tmp_path_factory.mktemp("large") / "m.safetensors", tensors)


def alone(name):
    """What the rules make of a tensor, by `convert`."""
    x = TENSORS[name]
    if name == "a.norm":
        return x
    if name == "turned":
        return tilewright.convert(x.T, "SpyreTensorLayout((70, 300), torch.float16)")
    mesh = "ShardTensorToMesh(mesh_shape=(1, 4), dim=1)" if name == "wide" else None
    return tilewright.convert(x, "ttnn(dtype=bfloat8_b, layout=TILE)", mesh=mesh)


KEPT = [name for name in TENSORS if name != "ids"]


@pytest.mark.parametrize("memory", ["8MiB", 1 << 28, "2GiB"])
@pytest.mark.parametrize("threads", [1, None])
def test_a_stream_gives_what_convert_makes(model, memory, threads):
    stream = tilewright.stream(model, RULES, memory=memory, threads=threads)
    assert len(stream) == len(KEPT)
    names = []
    for name, tensor in stream:
        names.append(name)
        np.testing.assert_array_equal(tensor.data, alone(name))
        assert tensor.data.dtype == alone(name).dtype and tensor.data.flags.writeable
        assert tensor.shape == (SHAPES[name][::-1] if name == "turned" else SHAPES[name])
        assert (tensor.dtype, tensor.mesh is None) == ("f16" if name == "turned" else "f32", name != "wide")
    assert names == KEPT
    assert list(stream) == []


def test_tensors_of_a_stream_may_be_kept(model):
    kept = dict(tilewright.stream(model, RULES, memory="8MiB"))
    for name, tensor in kept.items():
        np.testing.assert_array_equal(tensor.data, alone(name))


def test_a_stream_of_some_devices(model):
    wide = dict(tilewright.stream(model, RULES, only_devices=range(1, 3)))["wide"]
    np.testing.assert_array_equal(wide.data, alone("wide")[1:3])


def threads_of_streams():
    names = []
    folder = Path("/proc/self/task")
    for task in folder.iterdir() if folder.exists() else []:
        # A thread that has ended since it was listed has no name, or no folder, or ends while its name is read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append((task / "comm").read_text())
    return [name for name in names if name.startswith("tilewright")]


def no_thread_is_left():
    # A thread that was joined may be listed for a moment more: the system tells who waits for it before it unlists it.
    until = time.monotonic() + 1
    while threads_of_streams() and time.monotonic() < until:
        time.sleep(0.001)
    return threads_of_streams() == []


def test_leaving_the_loop_ends_the_work(large):
    for leave in ("break", "raise", "close", "with"):
        # Room for a few tensors: the work waits when the loop is left.
        stream = tilewright.stream(large, RULES.split("[[rule]]\nname = \"*.norm\"")[0], memory="8MiB")
        if leave == "break":
            for _ in stream:
                break
            del stream
        elif leave == "raise":
            with pytest.raises(KeyError, match="on purpose"):
                for _ in stream:
                    raise KeyError("on purpose")
            del stream
        elif leave == "close":
            next(stream)
            stream.close()
            assert next(stream, None) is None
        else:
            with stream:
                next(stream)
            assert next(stream, None) is None
        assert no_thread_is_left()


def test_other_threads_run_while_a_stream_waits(large):
    counted = 0
    done = threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    other.start()
    try:
        assert sum(1 for _ in tilewright.stream(large, "ttnn-bfp8", memory="16MiB", threads=1)) == 32
    finally:
        done.set()
        other.join()
    assert counted > 0


def test_a_stream_refuses_at_once(model, tmp_path):
    for arguments, match in [
        ((model, RULES, "1MiB"), "needed"),
        ((model, RULES, "2 buckets"), "needed a number of bytes"),
        ((model, "[[rule]]\nname = 3\n", "1GiB"), "rules, line 2"),
        ((model, tmp_path / "none.toml", "1GiB"), "none.toml"),
        ((tmp_path / "none.safetensors", RULES, "1GiB"), "none.safetensors"),
        ((model, "[[rule]]\nname = \"a\"\nskip = true\n", "1GiB"), "none for `a.norm`"),
    ]:
        path, rules, memory = arguments
        with pytest.raises(tilewright.Error, match=match):
            tilewright.stream(path, rules, memory=memory)
    with pytest.raises(tilewright.Error, match="1 to 1024"):
        tilewright.stream(model, RULES, threads=0)


def test_a_model_that_ends_early_is_an_error_in_the_loop(large, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(large.read_bytes())
    stream = tilewright.stream(path, "ttnn-bfp8", memory="8MiB")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(tilewright.Error, match="m.safetensors"):
        for _ in stream:
            pass


def test_packed_files_hold_what_convert_makes(model, tmp_path):
    told = []
    report = tilewright.pack(
        model, RULES, tmp_path / "out", max_memory="64M", threads=2, progress=lambda *event: told.append(event)
    )
    assert [file.name for file in report.files] == KEPT
    assert (report.made, report.kept, report.bytes) == (5, 0, sum(file.bytes for file in report.files))
    assert report.elements_bytes == sum(TENSORS[name].nbytes for name in KEPT)
    written = [written for written, _, _ in told]
    assert written == sorted(written) and {file for _, _, file in told} - {None} == {f.file for f in report.files}
    assert all(total == report.bytes for _, total, _ in told)
    for file in report.files:
        path = tmp_path / "out" / file.file
        assert path.stat().st_size == file.bytes
        if path.suffix == ".tensorbin":
            stored = tilewright.load_tensorbin(path, dtype="f32")
            packed = tilewright.convert(TENSORS[file.name], file.layout)
            np.testing.assert_array_equal(
                stored, tilewright.compile(file.layout, None, shape=file.shape, dtype="f32")(packed)
            )
        else:
            assert path.read_bytes() == alone(file.name).tobytes()


def contents(directory):
    return {p.name: p.read_bytes() for p in directory.iterdir() if not p.name.startswith(".tilewright-lock")}


def test_choices_of_numbers_are_those_of_convert(model, tmp_path):
    choices = {"rounding": "truncate", "search": True}
    wanted = tilewright.convert(TENSORS["a"], "ttnn(dtype=bfloat8_b, layout=TILE)", **choices)
    assert wanted.tobytes() != alone("a").tobytes()
    report = tilewright.pack(model, RULES, tmp_path / "out", **choices)
    assert (tmp_path / "out" / report.files[0].file).read_bytes().endswith(wanted.tobytes())
    np.testing.assert_array_equal(next(tilewright.stream(model, RULES, **choices))[1].data, wanted)
    hook = tilewright.transfer_hook(RULES, lambda tensor, name, device: tensor.data, **choices)
    np.testing.assert_array_equal(hook(TENSORS["a"], "a", "cpu"), wanted)
    with pytest.raises(tilewright.Error, match="rounding"):
        tilewright.pack(model, RULES, tmp_path / "other", rounding="up")


def test_without_a_directory_nothing_is_written(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = tilewright.pack(model, RULES)
    assert (report.made, len(report.files)) == (0, 5) and list(tmp_path.iterdir()) == []
    assert report.files[3].mesh == "ShardTensorToMesh(mesh_shape=(1, 4), dim=1)"
    assert report.files[1].layout == "memref<77xf32>" and report.files[1].rule == "*.norm"


def test_an_exception_of_the_progress_ends_packing_and_resume_goes_on(large, tmp_path):
    def progress(written, total, file):
        raise KeyError("on purpose")

    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "*"\ndtype = "bfloat8_b"\n')
    with pytest.raises(KeyError, match="on purpose"):
        tilewright.pack(large, rules, tmp_path / "out", max_memory="8MiB", progress=progress)
    assert not (tmp_path / "out" / "manifest.json").exists()
    report = tilewright.pack(large, rules, tmp_path / "out", resume=True)
    assert report.made + report.kept == 32 and report.made >= 1
    tilewright.pack(large, rules, tmp_path / "again")
    assert contents(tmp_path / "out") == contents(tmp_path / "again")
    assert tilewright.pack(large, rules, tmp_path / "out", resume=True).kept == 32


def test_what_cannot_be_packed_is_an_error(model, tmp_path):
    for options, match in [
        ({"rank": 1}, "both or neither"),
        ({"rank": 4, "world": 4}, "rank"),
        ({"max_memory": 1000}, "bytes"),
        ({"only_devices": range(0, 4, 2)}, "step 1"),
        ({"threads": 2000}, "1 to 1024"),
    ]:
        with pytest.raises(tilewright.Error, match=match):
            tilewright.pack(model, RULES, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


SHARE = """
import sys, tilewright
model, rules, out, rank, world = sys.argv[1:]
report = tilewright.pack(model, rules, out, rank=int(rank), world=int(world), threads=1)
print(report.made)
"""


def test_four_processes_make_what_one_makes(large, tmp_path):
    tilewright.pack(large, "ttnn-bfp8", tmp_path / "one")
    arguments = [sys.executable, "-c", SHARE, large, "ttnn-bfp8", tmp_path / "four"]
    workers = [
        subprocess.Popen([*map(str, arguments), str(rank), "4"], stdout=subprocess.PIPE, text=True) for rank in range(4)
    ]
    made = [int(worker.communicate(timeout=300)[0]) for worker in workers]
    assert sum(made) == 32 and min(made) > 0
    four = contents(tmp_path / "four")
    assert {name: four[name] for name in four if "-of-" not in name} == contents(tmp_path / "one")


INTERRUPTED = """
import sys, tilewright
def progress(written, total, file):
    print(file, flush=True)
    sys.stdin.readline()
tilewright.pack(*sys.argv[1:], progress=progress)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interruption_ends_packing(large, tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(large), "ttnn-bfp8", str(tmp_path / "out")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors and process.returncode != 0
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not [p for p in (tmp_path / "out").iterdir() if p.suffix == ".part"]


def test_the_hook_converts_by_name():
    given = []

    def upload(tensor, name, device):
        given.append(device)
        np.testing.assert_array_equal(tensor.data, alone(name))
        assert tensor.shape == (SHAPES[name][::-1] if name == "turned" else SHAPES[name])
        return name

    hook = tilewright.transfer_hook(RULES, upload, threads=1)
    for name in KEPT:
        assert hook(TENSORS[name], name, "spyre:1") == name
    assert hook(TENSORS["ids"], "ids", "spyre:1") is TENSORS["ids"]
    assert given == ["spyre:1"] * 5
    with pytest.raises(tilewright.Error, match="none for `other`"):
        tilewright.transfer_hook('[[rule]]\nname = "a"\ndtype = "bfloat8_b"\n', upload)(TENSORS["a"], "other", 0)
    fused = '[[rule]]\nname = "*"\ndtype = "bfloat8_b"\nsplit = [["q", 1], ["k", 2]]\n'
    with pytest.raises(tilewright.Error, match="one tensor at a time"):
        tilewright.transfer_hook(fused, upload)


def test_the_hook_converts_what_safetensors_loads(model):
    safetensors = pytest.importorskip("safetensors")
    hook = tilewright.transfer_hook(RULES, lambda tensor, name, device: tensor.data)
    with safetensors.safe_open(model, framework="np") as file:
        for name in KEPT:
            np.testing.assert_array_equal(hook(file.get_tensor(name), name, "spyre"), alone(name))

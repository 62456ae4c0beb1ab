"""Staging: what arrives is what plans make, in memory that does not grow, and every end is a clean one."""

import threading

import numpy as np
import pytest

import tilewright

TILES = "ttnn(dtype=bfloat8_b, layout=TILE)"


@pytest.fixture(scope="module")
def weights():
    random = np.random.default_rng(5)
    arrays = [random.standard_normal(shape).astype("f4") for shape in [(640, 256), (3, 5), (33, 70)]]
    return [(tilewright.compile(x, TILES), x) for x in [*arrays, arrays[0][:, ::-1]]]


def received(stager, transfers, **options):
    out = [bytearray(plan.destination_bytes) for plan, _ in transfers]

    def sink(index, begin, piece):
        assert len(piece) > 0 and piece.format == "B"
        out[index][begin : begin + len(piece)] = piece

    return out, stager.run(transfers, sink, **options)


def test_what_arrives_is_what_plans_make(weights):
    expected = [plan(x).tobytes() for plan, x in weights]
    slots = [np.zeros((2, 8192), np.uint8) for _ in range(2)]
    for stager in (tilewright.Stager(2, 16384), tilewright.Stager(), tilewright.Stager(slots)):
        for threads in (1, 2, None):
            out, report = received(stager, weights, threads=threads)
            assert out == expected
            assert report.bytes == sum(map(len, expected))
            assert 0 <= report.converting <= report.wall and report.slots >= 1


def test_an_exception_of_the_sink_is_raised(weights):
    calls = []

    def sink(index, begin, piece):
        calls.append(begin)
        if len(calls) == 3:
            raise KeyError("on purpose")

    stager = tilewright.Stager(2, 16384)
    with pytest.raises(KeyError, match="on purpose"):
        stager.run(weights, sink)
    assert len(calls) == 3
    out, _ = received(stager, weights)
    assert out[0] == weights[0][0](weights[0][1]).tobytes()


def test_wrong_arguments_are_errors(weights):
    plan, x = weights[0]
    for slots, match in [
        ([], "1 to 64"),
        ([np.zeros(4000, np.uint8)], "4096 or more"),
        ([np.zeros((200, 200), np.uint8)[:, ::2]], "C-contiguous"),
        ([np.frombuffer(bytes(8192), np.uint8)], "read-only"),
        ([x.view(np.uint8)], "overlaps"),
        ([np.zeros(8192, np.uint8)] * 2, "overlaps"),
    ]:
        with pytest.raises((tilewright.Error, TypeError), match=match):
            tilewright.Stager(slots).run(weights, lambda *_: None)
    with pytest.raises(tilewright.Error, match="1 to 64"):
        tilewright.Stager(65)
    with pytest.raises(tilewright.Error, match="shape"):
        tilewright.Stager(1, 8192).run([(plan, x[:5])], lambda *_: None)


def test_other_threads_run_meanwhile(weights):
    stager = tilewright.Stager(2, 16384)
    inside, seen = threading.Event(), threading.Event()

    def sink(index, begin, piece):
        # Only a thread that gets the interpreter can answer.
        inside.set()
        assert seen.wait(60)

    other = threading.Thread(target=lambda: inside.wait(60) and seen.set())
    other.start()
    stager.run(weights[:1], sink)
    other.join()

"""Batches: the results of each conversion alone, and errors that say which one they are of."""

import numpy as np
import pytest

import tilewright

TILES = "ttnn(dtype=bfloat8_b, layout=TILE)"


@pytest.fixture(scope="module")
def conversions():
    random = np.random.default_rng(9)
    shapes = [(32, 32), (3, 5), (700, 512), (0, 4)] * 50
    arrays = [random.standard_normal(shape).astype("f4") for shape in shapes]
    arrays[4] = arrays[4].T
    return [(tilewright.compile(x, TILES), x) for x in arrays]


def test_a_batch_gives_what_each_plan_gives(conversions):
    expected = [plan(x) for plan, x in conversions]
    for threads in (1, 2, None):
        for got, one in zip(tilewright.execute_batch(conversions, threads=threads), expected, strict=True):
            np.testing.assert_array_equal(got, one)
    outs = [bytearray(plan.destination_bytes) for plan, _ in conversions]
    given = tilewright.execute_batch(iter(conversions), outs=outs)
    assert all(a is b for a, b in zip(given, outs, strict=True))
    assert outs == [one.tobytes() for one in expected]
    assert tilewright.execute_batch([]) == []


def test_host_arrays_come_back_as_arrays(conversions):
    back = [tilewright.compile(TILES, shape=x.shape, dtype="f32") for _, x in conversions]
    packed = tilewright.execute_batch(conversions)
    for got, (_, x) in zip(tilewright.execute_batch(zip(back, packed, strict=True)), conversions, strict=True):
        assert got.dtype == np.float32 and got.shape == x.shape
        np.testing.assert_allclose(got, x, atol=0.1)


def test_an_error_says_of_which_conversion_it_is(conversions):
    plan, x = conversions[0]
    size = plan.destination_bytes
    wrong = [(plan, x), (plan, x[:5]), (plan, x)]
    with pytest.raises(tilewright.Error, match="shape") as caught:
        tilewright.execute_batch(wrong)
    assert caught.value.__notes__ == ["in conversion 1 of the batch"]
    outs = [bytearray(size), bytearray(size), bytearray(size - 1)]
    with pytest.raises(tilewright.Error, match="destination holds") as caught:
        tilewright.execute_batch([(plan, x)] * 3, outs=outs)
    assert caught.value.__notes__ == ["in conversion 2 of the batch"]
    with pytest.raises(tilewright.Error, match="outs: given 2, needed one for each of 3"):
        tilewright.execute_batch([(plan, x)] * 3, outs=outs[:2])
    with pytest.raises(tilewright.Error, match="overlaps another `out`"):
        tilewright.execute_batch([(plan, x)] * 2, outs=[outs[0], outs[0]])
    both = np.zeros(2 * x.nbytes, np.uint8)
    source = both[: x.nbytes].view("f4").reshape(x.shape)
    with pytest.raises(tilewright.Error, match="overlaps a source"):
        tilewright.execute_batch([(plan, x), (plan, source)], outs=[both[8 : 8 + size], outs[1]])
    assert not any(outs[0]) and not any(outs[1]) and not both.any()
    narrow = tilewright.compile("memref<2xi32>", "memref<2xui8>")
    numbers = [np.array([i, 100 * i], "i4") for i in range(5)]
    results = [np.zeros(2, np.uint8) for _ in numbers]
    with pytest.raises(tilewright.Error, match="300") as caught:
        tilewright.execute_batch([(narrow, n) for n in numbers], outs=results)
    assert caught.value.__notes__ == ["in conversion 3 of the batch"]
    assert [list(r) for r in results] == [[0, 0], [1, 100], [2, 200], [3, 255], [4, 255]]

"""Staging: tensors through a few pieces of memory, to a function."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._convert import Plan
from ._tilewright import Error, stage


class StageReport(NamedTuple):
    """What a run of a `Stager` did; times are in seconds."""

    bytes: int
    slots: int
    wall: float
    converting: float
    in_sink: float


class Stager:
    """A few pieces of memory through which any number of tensors go to a device: the memory that it takes is theirs.

    `slots` is how many there are, of `slot_bytes` each; or the memory itself: writable arrays of equal size, such as pinned
    tensors, which nothing else uses while a call runs.
    """

    def __init__(self, slots: int | Sequence[Any] = 3, slot_bytes: int = 32 << 20) -> None:
        if isinstance(slots, int):
            if not 1 <= slots <= 64:
                raise Error(f"slots: given {slots}, needed 1 to 64")
            slots = [np.empty(slot_bytes, np.uint8) for _ in range(slots)]
        self._slots = list(slots)

    def run(
        self,
        transfers: Iterable[tuple[Plan, Any]],
        sink: Callable[[int, int, memoryview], object],
        threads: int | None = None,
    ) -> StageReport:
        """Converts each array by its plan, one after another, and calls `sink(index, begin, piece)` with the bytes of the
        destinations, each byte once and in order: those from `begin` on of transfer `index`.

        `piece` is a view of a slot, which is used again when `sink` returns: what is to stay must be copied. The
        interpreter is free while chunks are converted. An exception of `sink` ends the run and is raised.
        """
        views = [memoryview(slot).cast("B") for slot in self._slots]

        def piece(index: int, begin: int, slot: int, offset: int, length: int) -> None:
            sink(index, begin, views[slot][offset : offset + length])

        plans = [(plan._plan, x) for plan, x in transfers]
        return StageReport(*stage(self._slots, plans, piece, threads))

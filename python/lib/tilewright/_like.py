"""Layout texts of ttnn's tensors, without ttnn: what their parts print is what the library reads."""

from typing import Any


def layout_of(like: Any) -> tuple[str, str | None]:
    """The layout text of a tensor or a tensor specification of ttnn, and the text of its topology, if it has one.

    Interleaved memory tells neither banks nor alignment of a device: its pages lie in one buffer, as on the host.
    """
    parts = [f"dtype={_part(like, 'dtype')}", f"layout={_part(like, 'layout')}"]
    if "TILE" in parts[1] and (tile := _part(like, "tile")) is not None:
        parts.append(f"tile={tile}")
    memory = _part(like, "memory_config")
    if memory is not None and "INTERLEAVED" not in str(memory):
        parts.append(f"memory_config={memory}")
    topology = _part(like, "tensor_topology")
    return f"ttnn({', '.join(parts)})", None if topology is None else str(topology)


def _part(like: Any, name: str) -> Any:
    """A part, which some objects have as a property and some as a method; None where there is none."""
    part = getattr(like, name, None)
    return part() if callable(part) else part

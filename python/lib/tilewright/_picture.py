"""Pictures of layouts in files."""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

from ._convert import Plan, compiled, text
from ._names import short_name
from ._tilewright import Error, Layout


def draw(
    what: Plan | Layout | str,
    path: str | PathLike[str],
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    *,
    mesh: str | None = None,
    device: str | None = None,
) -> None:
    """Draws a layout into a file: an image (`.svg`), or a page that needs no network (`.html`).

    Of a plan, what it writes is drawn. Of a layout, `shape` and `dtype` are the tensor's, where its text does not say them;
    with a `mesh` mapper it is the layout of what one device gets, and a `device` places the cores of a metal layout.
    """
    name = fspath(path)
    if not name.endswith((".svg", ".html")):
        raise Error(f"path: given {name}, needed a name that ends in .html or .svg")
    if isinstance(what, Plan):
        if shape is not None or dtype is not None or mesh is not None or device is not None:
            raise Error("shape, dtype, mesh or device: given beside a plan, needed none: the plan has them")
        plan = what
    else:
        size = None if shape is None else tuple(shape)
        kind = None if dtype is None else short_name(dtype)
        plan = compiled(size, kind, None, text(what), mesh, device)
    image = plan._plan.picture(name.endswith(".html"), None)
    # Without a limit there is a picture, or an error.
    assert image is not None
    with open(name, "w", encoding="utf-8") as file:
        file.write(image)

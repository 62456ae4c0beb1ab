"""The reference in docs/python.md is what the package says of itself. TILEWRIGHT_BLESS=1 writes it anew."""

import ast
import inspect
import os
import textwrap
from pathlib import Path

import tilewright

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
BEGIN = "## Reference\n"


def signature(function):
    """A function's name, arguments and types, as they are written."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    arguments = ast.unparse(tree.args)
    result = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    return f"{tree.name}({arguments}){result}"


def documented(thing):
    text = inspect.getdoc(thing)
    assert text and text.strip(), f"{thing} says nothing of itself"
    return text.strip() + "\n"


def block(lines):
    return "```text\n" + "\n".join(lines) + "\n```\n"


def members(cls):
    """The public methods and properties of a class, in order."""
    for name, member in vars(cls).items():
        if name == "__call__" or not name.startswith("_"):
            if isinstance(member, property):
                yield f"{name}: {ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(member.fget))).body[0].returns)}", member
            elif inspect.isfunction(member):
                yield signature(member), member


def of_class(name, cls):
    yield f"### `{name}`\n"
    yield documented(cls)
    if hasattr(cls, "_fields") or hasattr(cls, "__total__"):
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        fields = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
        yield block(f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}" for node in fields)
    elif cls.__module__.startswith("tilewright._") and cls.__module__ != "tilewright._tilewright":
        for head, member in members(cls):
            yield block([head])
            yield documented(member)


def reference():
    yield BEGIN
    yield "Made of what the package says of itself. `Out` is the type of `out`; without one, a numpy array.\n"
    for name in sorted(tilewright.__all__, key=str.lower):
        thing = getattr(tilewright, name)
        if inspect.isclass(thing):
            yield from of_class(name, thing)
        elif callable(thing):
            yield f"### `{name}`\n"
            yield block([signature(thing)])
            yield documented(thing)


def test_the_reference_is_that_of_the_package():
    page = PAGE.read_text()
    before = page[: page.index(BEGIN)]
    made = before + "\n".join(reference())
    if "TILEWRIGHT_BLESS" in os.environ:
        PAGE.write_text(made)
    assert page == made or "TILEWRIGHT_BLESS" in os.environ
    for name in tilewright.__all__:
        assert name.startswith("__") or f"### `{name}`" in made

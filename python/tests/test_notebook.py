"""The notebook runs from top to bottom, and shows pictures where it says so."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tour.ipynb"


def test_it_runs_from_top_to_bottom():
    """As a notebook does, without one: the value of a cell's last expression is what it shows."""
    notebook = json.loads(NOTEBOOK.read_text())
    names, pictures = {}, 0
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        assert cell["outputs"] == [], "the notebook is kept without outputs"
        tree = ast.parse(cell["source"])
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, NOTEBOOK.name, "exec"), names)
        shown = last and eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
        if hasattr(shown, "_repr_html_"):
            html = shown._repr_html_()
            assert html.startswith("<img ") and len(html) < 200_000
            pictures += 1
    assert pictures == 5


def test_it_runs_in_jupyter():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("text/html" in output.get("data", {}) for output in shown) == 5

"""The notebooks at small size: they run, and print the claims that are stored in them."""

import contextlib
import io
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
#: What replaces the numbers of the first cell.
SMALL = {
    "01_two_stages": {"width": 8},
    "02_when_does_it_blow_up": {"width": 4, "widths": (4, 64), "count": 500},
    "03_theory_without_a_fit": {"width": 8, "scales": (1e-2, 1e-3)},
    "04_rank_collapse": {"width": 8},
    "05_descent_against_the_flow": {
        "width": 8, "steps": (100, 200), "batches": (16, 256), "members": 128,
    },
    "06_your_own": {"samples": 1797, "tokens": 8},
    "07_census": {"width": 4, "count": 2000},
    "08_variants": {"width": 8, "scales": (1e-2, 1e-3)},
}  # fmt: skip


def cells(name):
    """The code cells of a notebook."""
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored(cell):
    """What a cell printed when the notebook was stored."""
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


def printed(source, names):
    """What a cell prints now, in the namespace `names`."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        exec(compile(source, "cell", "exec"), names)
    return text.getvalue()


def test_every_notebook_has_a_small_size_and_a_line_in_the_map():
    assert sorted(name for group in GROUPS for name in group) == sorted(SMALL)
    found = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    assert found == sorted(SMALL)
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.ipynb)" in text for name in found)


@pytest.mark.parametrize("name", SMALL)
def test_stored_notebooks_are_whole(name):
    first, *rest = cells(name)
    assert len(rest) < 12
    assert first["metadata"]["tags"] == ["parameters"]
    assert not any(out["output_type"] == "error" for cell in rest for out in cell["outputs"])
    claims = stored(rest[-1]).splitlines()
    assert claims
    assert all(line.endswith(": True") for line in claims)
    assert "assert all(claims.values())" in "".join(rest[-1]["source"])
    assert "import _" not in "".join(line for cell in rest for line in cell["source"])


#: Notebooks that share compiled shapes stay in one process.
GROUPS = [
    ("01_two_stages", "03_theory_without_a_fit", "04_rank_collapse",
     "05_descent_against_the_flow", "08_variants"),
    ("02_when_does_it_blow_up", "06_your_own", "07_census"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=["digits", "others"])
def test_notebooks_still_hold_at_small_size(group):
    for name in group:
        first, *rest = cells(name)
        names = {}
        printed("".join(first["source"]), names)
        assert set(SMALL[name]) <= set(names)
        names |= SMALL[name]
        for cell in rest[:-1]:
            printed("".join(cell["source"]), names)
        assert printed("".join(rest[-1]["source"]), names) == stored(rest[-1]), name

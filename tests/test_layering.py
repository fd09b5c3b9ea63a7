"""Imports point one way: a module imports only from rooms earlier in this list."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "flowsim"
ROOMS = [
    "checks", "storage", "outcome", "trajectory", "tasks", "network", "flows", "observables",
    "integrate", "blow_up", "predict", "descent", "compare", "ensemble", "report", "experiments",
    "cli",
]  # fmt: skip
MODULES = sorted(p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py"))


def imported_rooms(source: str) -> set[str]:
    """The rooms named by every import of flowsim in a source, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "flowsim":
                names = [f"flowsim.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("flowsim.")}
    return found


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_only_from_earlier_rooms(module):
    room = module.parts[0].removesuffix(".py")
    if room in ("__init__", "__main__"):
        return
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    assert imported_rooms((PACKAGE / module).read_text(encoding="utf-8")) <= allowed


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_relative_or_star_imports(module):
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert all(alias.name != "*" for alias in node.names)


def test_modules_are_short():
    long = {str(m): n for m in MODULES if (n := len((PACKAGE / m).read_text().splitlines())) > 300}
    assert not long

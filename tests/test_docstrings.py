"""Examples in docstrings give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "flowsim"
FILES = [path for path in PACKAGE.rglob("*.py") if ">>>" in path.read_text(encoding="utf-8")]
MODULES = sorted(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in FILES)


def test_there_are_examples():
    assert len(MODULES) >= 6


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0

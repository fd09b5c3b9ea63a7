"""The API reference as HTML, from the docstrings: `python docs/reference.py FOLDER`.

Each name stands under the room that exports it, those of `flowsim` itself first.
"""

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import pdoc

import flowsim

#: Packages and modules without names for users.
INSIDE = ("__main__", "checks", "cli", "storage")
ROOMS = [room.name for room in pkgutil.iter_modules(flowsim.__path__) if room.name not in INSIDE]
#: One page a room, and one for the figures; no pages of their parts.
PAGES = (
    "flowsim", r"!flowsim\.\w+\..*", "flowsim.report.figures", r"!flowsim\.report\.figures\..*",
)  # fmt: skip


def export(name: str) -> None:
    """Let a package's page show the names that its `__init__` imports, and flowsim's its rooms."""
    module = importlib.import_module(name)
    if hasattr(module, "__path__") and not hasattr(module, "__all__"):
        public = {key: value for key, value in vars(module).items() if key[0] != "_"}
        module.__all__ = [key for key, value in public.items() if not inspect.ismodule(value)]
        if name == "flowsim":
            module.__all__ += ROOMS


def write(folder: Path) -> None:
    """All pages; `index.html` leads to them."""
    for name in ("flowsim", "flowsim.report.figures", *(f"flowsim.{room}" for room in ROOMS)):
        export(name)
    pdoc.render.configure(docformat="google", show_source=False)
    pdoc.pdoc(*PAGES, output_directory=folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

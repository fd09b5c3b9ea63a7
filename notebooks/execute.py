"""Run the notebooks and store them with their outputs, and the README's picture with them.

    python notebooks/execute.py [NAME.ipynb …]

Without names: all of them, then `two_stages.png`, the overview that `flowsim run` draws.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
TIMEOUT = 600  # seconds a cell


def execute(path: Path) -> None:
    """One notebook, in a kernel of its own; stored only if no cell fails."""
    notebook = nbformat.read(path, as_version=4)
    started = time.perf_counter()
    client = NotebookClient(
        notebook, timeout=TIMEOUT, record_timing=False, resources={"metadata": {"path": FOLDER}}
    )
    client.execute()
    for cell in notebook.cells:  # warnings name files of this machine
        outputs = cell.get("outputs", [])
        outputs[:] = [output for output in outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)
    print(f"{path.name}: {time.perf_counter() - started:.0f} s")


def draw_overview() -> None:
    """The picture of the README, from the run that `flowsim run` does without arguments."""
    import jax

    from flowsim.experiments.two_stage import TwoStage, run

    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        run(TwoStage(), Path(folder) / "run")
        shutil.copy(Path(folder) / "run/figures/overview.png", FOLDER / "two_stages.png")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(FOLDER / Path(name).name)
    if len(sys.argv) == 1:
        for path in sorted(FOLDER.glob("*.ipynb")):
            execute(path)
        draw_overview()

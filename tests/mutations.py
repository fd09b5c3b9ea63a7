"""Ten wrong signs, factors and indices in the flows and what rests on them; each must be noticed.

Each is written into a copy of the package, and the test that should fail runs against that copy.

    python tests/mutations.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """A line of a file, what it becomes, and the test that fails then."""

    file: str
    line: str
    wrong: str
    test: str


MUTATIONS = [
    Mutation(
        "flows/full.py",
        "lambda theta: -self.net.loss",
        "lambda theta: self.net.loss",
        "flows/test_full.py",
    ),
    Mutation(
        "flows/leading_order.py",
        "W_1=self.kappa * jnp.outer(W_v, W_2)",
        "W_1=0.5 * self.kappa * jnp.outer(W_v, W_2)",
        "flows/test_leading_order.py::test_conserves_A_B_and_D_and_grows_by_six_energies",
    ),
    Mutation(
        "flows/leading_order.py",
        "W_2=self.kappa * (W_v @ W_1)",
        "W_2=-self.kappa * (W_v @ W_1)",
        "flows/test_leading_order.py::test_rate_is_kappa_times_the_gradient_of_the_energy",
    ),
    Mutation(
        "flows/key_query.py",
        "return F @ W_K, F.T @ W_Q",
        "return F @ W_K, F @ W_Q",
        "flows/test_key_query.py::test_F_may_depend_on_time",
    ),
    Mutation(
        "flows/key_query.py",
        "values - means, task.X",
        "values, task.X",
        "flows/test_key_query.py",
    ),
    Mutation(
        "flows/condensed.py",
        "along_p = jnp.sum(attention * (X @ state.p), axis=1)",
        "along_p = jnp.mean(attention * (X @ state.p), axis=1)",
        "flows/test_condensed.py",
    ),
    Mutation(
        "flows/modified.py",
        "self.learning_rate / 2 * c",
        "self.learning_rate / 4 * c",
        "flows/test_modified.py",
    ),
    Mutation(
        "network/attention.py",
        "queries = chain(X[:, -1, :],",
        "queries = chain(X[:, 0, :],",
        "network/test_one_layer.py",
    ),
    Mutation(
        "network/one_layer.py",
        "abs(self.margin_loss.slope * self.slope)",
        "abs(self.slope)",
        "flows/test_leading_order.py::"
        "test_full_rate_approaches_the_leading_order_one_like_scale_squared",
    ),
    Mutation(
        "tasks/task.py",
        "self.strength = unit * strength",
        "self.strength = unit * strength / self.X.shape[1]",
        "tasks/test_task.py",
    ),
]


def passes(tests: list[str], mutation: Mutation | None = None) -> bool:
    """Whether the tests pass on a copy of the package, with a mutation in place."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("flowsim", "tests"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        if mutation:
            mutate(Path(folder) / "flowsim" / mutation.file, mutation)
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-qx", "-n0", "-p", "no:cacheprovider", *tests],
            cwd=Path(folder) / "tests",
            env=os.environ | {"PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{tests} could not run:\n{ended.stdout}{ended.stderr}")
    return ended.returncode == 0


def mutate(path: Path, mutation: Mutation) -> None:
    """Change the line, which must be there once."""
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.line) != 1:
        raise SystemExit(f"{mutation.file} must hold {mutation.line!r} once")
    path.write_text(text.replace(mutation.line, mutation.wrong), encoding="utf-8")


def main() -> int:
    """A line a mutation; the exit code is the number of those that no test noticed."""
    if not passes(sorted({mutation.test for mutation in MUTATIONS})):
        raise SystemExit("the tests must pass without a mutation")
    missed = 0
    for mutation in MUTATIONS:
        found = not passes([mutation.test], mutation)
        missed += not found
        print(f"{'noticed' if found else 'MISSED '}  {mutation.file}: {mutation.wrong}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

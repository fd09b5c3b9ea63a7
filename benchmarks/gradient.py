"""One gradient of the full model against the machine's float64 matrix-product rate.

    python -m benchmarks.gradient [--toy] [--out FOLDER]

Gradients and runs of ten products are timed in turn, so that a busy machine slows both alike;
medians are compared. NumPy's products come last: its waiting threads would slow JAX's.
The share counts the products of the last tokens with W_Q and W_Kᵀ and of the contexts with W_V
and W_1, forward and backward; scores, contexts and elementwise functions count as nothing. It is
given twice: for the products performed (`chain` may multiply two weights first) and for those of
the formulas as they stand.
"""

from collections.abc import Iterator

import jax
import numpy as np

from benchmarks import harness
from flowsim.flows import Full
from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.network.products import factors_first
from flowsim.tasks import Task

ROUNDS = 15
PRODUCTS = 10


def plain_flops(n: int, a: int, b: int, c: int, *, rows_move: bool) -> int:
    """Operations of (rows A) B and of the gradients of A, B and, if they move, of the rows."""
    return 2 * (n * a * b * (2 + rows_move) + 3 * n * b * c)


def chain_flops(n: int, a: int, b: int, c: int, *, rows_move: bool) -> int:
    """The same in the order that `chain` picks."""
    if factors_first(n, a, b, c):
        return 2 * (3 * a * b * c + (2 + rows_move) * n * a * c)
    return plain_flops(n, a, b, c, rows_move=rows_move)


def gradient_flops(count, n: int, width: int) -> int:
    """Queries X_{i,s} W_Q W_Kᵀ, whose tokens do not move, and contexts times W_V W_1."""
    sizes = n, width, width, width
    return count(*sizes, rows_move=False) + count(*sizes, rows_move=True)


def problem(n: int, s: int, width: int):
    rng = np.random.default_rng(0)
    task = Task(rng.normal(size=(n, s, width)), np.where(rng.random(n) < 0.5, -1.0, 1.0))
    theta = gaussian_parameters(jax.random.key(0), width, scale=0.01)
    return Full(OneLayerTransformer(), task), theta


def measured(n: int, s: int, width: int, rounds: int) -> Iterator[harness.Row]:
    """Shares by both counts, against products by JAX and by NumPy."""
    flow, theta = problem(n, s, width)
    rate = jax.jit(lambda flow, theta: flow.rate(0.0, theta))
    product = jax.jit(lambda a, b: a @ b)
    rows, square = flow.task.mean_tokens, theta.W_V
    rows_np, square_np = np.array(rows), np.array(square)
    calls = {
        "gradient": lambda: rate(flow, theta),
        "JAX": lambda: [product(rows, square) for _ in range(PRODUCTS)],
    }
    seconds = harness.medians(calls, rounds)
    seconds |= harness.medians(
        {"NumPy": lambda: [rows_np @ square_np for _ in range(PRODUCTS)]}, rounds
    )
    for name in ("JAX", "NumPy"):
        speed = PRODUCTS * 2 * n * width**2 / seconds[name]
        performed, plain = (
            gradient_flops(count, n, width) / seconds["gradient"] / speed
            for count in (chain_flops, plain_flops)
        )
        yield {
            "problem": f"n = {n}, s = {s}, d = {width}",
            "products by": name,
            "gradient ms": 1e3 * seconds["gradient"],
            "product Gflop/s": speed / 1e9,
            "share, performed": performed,
            "share, as written": plain,
        }


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """A wide model, which products limit, and the narrow one of the digits, which they do not."""
    if toy:
        yield measured(8, 3, 4, 1)
        return
    yield measured(1000, 10, 640, ROUNDS)
    yield measured(1797, 8, 16, 20 * ROUNDS)


if __name__ == "__main__":
    harness.run("gradient", measure, __doc__)

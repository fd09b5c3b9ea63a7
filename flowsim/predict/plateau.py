"""The plateau between the stages: the critical point of L̃_1 (theory.md, section 6)."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from flowsim.network import OneLayerTransformer
from flowsim.network.losses import Loss
from flowsim.tasks import Task

#: Newton steps at most, and the relative size of the gradient at which they end.
NEWTON_STEPS, NEWTON_ACCURACY = 200, 1e-12
#: Of the largest singular value: smaller ones of the mean tokens are rounding.
RANK_ACCURACY = 1e-12
#: Of the largest conceivable value: a smaller optimum of the linear program is rounding.
SEPARATION_ACCURACY = 1e-8


class Plateau(eqx.Module):
    """Where the outer matrices rest after stage 1, in the linearised model at zero attention.

    Attributes:
        exists: False where the mean tokens separate the labels, even weakly: then L̃_1 has no
            critical point and stage 1 does not end on a plateau.
        loss: L̃_1(β*), or None.
        beta: β* = W_V W_1 W_2 in original scale, shape (d,), in the span of the mean tokens; or
            None.
        gradient: ‖∇L̃_1(β*)‖ over the mean of ‖ℓ' x̄_i‖: how well β* is found; or None.
    """

    exists: bool = eqx.field(static=True)
    loss: float | None = None
    beta: Float[Array, "d"] | None = None
    gradient: float | None = None

    def __repr__(self) -> str:
        return f"Plateau(loss={self.loss:.6g})" if self.exists else "Plateau(none)"


def find_plateau(net: OneLayerTransformer, task: Task) -> Plateau:
    """β* = argmin L̃_1(β), L̃_1(β) = (1/n) Σ_i ℓ(y_i σ'(0) x̄_i·β), by damped Newton steps.

    Convex for a convex ℓ. The minimum is attained unless the mean tokens separate the labels; for
    a decreasing ℓ the linear program of `separates` decides.
    """
    margins = np.asarray(task.y)[:, None] * np.asarray(task.mean_tokens, np.float64)
    if separates(margins):
        return Plateau(False)
    left, sizes, right = np.linalg.svd(net.slope * margins, full_matrices=False)
    kept = sizes > RANK_ACCURACY * sizes[0]
    rows = left[:, kept] * len(margins) ** 0.5  # orthonormal columns in the mean over samples
    found = _minimise(lambda q: jax.device_get(_values(net.margin_loss, jnp.asarray(q))), rows)
    if found is None:
        return Plateau(False)
    scaled, loss, gradient = found
    beta = right[kept].T @ (scaled / sizes[kept]) * len(margins) ** 0.5
    return Plateau(True, loss, jnp.asarray(beta), gradient)


def separates(margins: Float[np.ndarray, "n d"]) -> bool:
    """Whether some β has y_i x̄_i·β ≥ 0 for all i, and > 0 for one (rows: y_i x̄_i).

    Linear program: maximise Σ_i y_i x̄_i·β subject to y_i x̄_i·β ≥ 0, ‖β‖_∞ ≤ 1.
    """
    from scipy.optimize import linprog

    rows = margins / np.max(np.abs(margins))
    total = rows.sum(axis=0)
    solved = linprog(-total, A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1), method="highs")
    if solved.status != 0:
        raise RuntimeError(f"the linear program for the plateau ended with: {solved.message}")
    return bool(-solved.fun > SEPARATION_ACCURACY * np.abs(rows).sum())


@eqx.filter_jit
def _values(margin_loss: Loss, q: Float[Array, "n"]) -> tuple[Array, Array, Array]:
    """ℓ, ℓ' and ℓ'' at each margin."""
    bend = jax.jvp(margin_loss.derivative, (q,), (jnp.ones_like(q),))[1]
    return margin_loss(q), margin_loss.derivative(q), bend


def _minimise(ell: Callable, rows: np.ndarray) -> tuple[np.ndarray, float, float] | None:
    """The minimiser of mean ℓ(rows·c) with its value and relative gradient; None if not found."""
    c = np.zeros(rows.shape[1])
    value, slope, bend = ell(rows @ c)
    for _ in range(NEWTON_STEPS):
        gradient = rows.T @ slope / len(rows)
        size = np.linalg.norm(gradient) / np.mean(np.abs(slope))
        if size <= NEWTON_ACCURACY:
            return c, float(np.mean(value)), float(size)
        step = _newton_step(rows, gradient, bend)
        shrink = _line_search(ell, rows, c, step, np.mean(value), gradient @ step)
        if shrink == 0:  # rounding: no step goes down any more
            return (c, float(np.mean(value)), float(size)) if size < 1e-7 else None
        c = c + shrink * step
        value, slope, bend = ell(rows @ c)
    return None


def _newton_step(rows: np.ndarray, gradient: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """−H⁻¹ g with the eigenvalues of H made positive, so that it goes down for any ℓ."""
    hessian = rows.T @ (bend[:, None] * rows) / len(rows)
    values, vectors = np.linalg.eigh(hessian)
    values = np.maximum(np.abs(values), 1e-14 * np.max(np.abs(values), initial=1e-300))
    return -vectors @ ((vectors.T @ gradient) / values)


def _line_search(
    ell: Callable, rows: np.ndarray, c: np.ndarray, step: np.ndarray, value: float, slope: float
) -> float:
    """The first of 1, ½, ¼, … that lowers the mean loss enough (Armijo); 0 if none does."""
    shrink = 1.0
    while shrink > 1e-12:
        ahead = float(np.mean(ell(rows @ (c + shrink * step))[0]))
        if ahead <= value + 1e-4 * shrink * slope:
            return shrink
        shrink /= 2
    return 0.0

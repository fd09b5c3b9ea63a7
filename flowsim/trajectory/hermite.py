"""Piecewise Hermite interpolation through saved states and their time derivatives."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

#: A neighbour joins the stencil only over gaps of comparable length: over a gap g of an interval
#: of length 1 the weights grow like g^-3 (they would amplify rounding), and far wider gaps bring
#: in a stretch where the solution may vary on another scale.
GAP_RATIO = 10.0


class Stencil(NamedTuple):
    """Up to four saved points around each of Q times: their rows and which of them count."""

    rows: Int[np.ndarray, "Q nodes"]
    valid: Bool[np.ndarray, "Q nodes"]


def stencil(times: Float[np.ndarray, "T"], t: Float[np.ndarray, "Q"]) -> Stencil:
    """The nearest four points, two on either side where the record has them.

    At the ends the four points are one-sided. Points behind a gap that is more than `GAP_RATIO`
    times shorter or longer than the interval of t are left out.
    """
    nodes = min(4, times.size)
    interval = np.clip(np.searchsorted(times, t, side="right") - 1, 0, times.size - 2)
    start = np.clip(interval - 1, 0, times.size - nodes)
    rows = start[:, None] + np.arange(nodes)
    gaps = np.diff(times[rows], axis=1)
    own = np.diff(times)[interval][:, None]
    comparable = (gaps * GAP_RATIO >= own) & (gaps <= GAP_RATIO * own)
    middle = (interval - start)[:, None]
    gap = np.arange(nodes - 1)
    valid = np.stack(
        [np.all(comparable | ~_between(gap, node, middle), axis=1) for node in range(nodes)],
        axis=1,
    )
    return Stencil(rows, valid)


def _between(gap: np.ndarray, node: int, middle: np.ndarray) -> np.ndarray:
    """Whether a gap lies between the node and the interval at gap `middle`."""
    return ((gap >= node) & (gap < middle)) | ((gap > middle) & (gap < node))


def weights(
    times: Float[np.ndarray, "T"], t: Float[np.ndarray, "Q"], chosen: Stencil, with_rates: bool
) -> tuple[Float[np.ndarray, "Q nodes"], Float[np.ndarray, "Q nodes"] | None]:
    """Weights of the values and of the rates at the points of the stencil.

    With l_j the Lagrange polynomials, H(t) = Σ_j [1 − 2 (t − t_j) l_j'(t_j)] l_j² y_j
    + (t − t_j) l_j² ẏ_j, or Σ_j l_j y_j without rates. Only ratios of time differences enter, so
    the unit and the origin of time do not matter.
    """
    nodes = times[chosen.rows]
    offset = t[:, None] - nodes
    lagrange = np.ones_like(nodes)
    slope = np.zeros_like(nodes)
    for k in range(nodes.shape[1]):
        apart = nodes - nodes[:, k : k + 1]
        use = (apart != 0) & chosen.valid[:, k : k + 1]
        apart = np.where(use, apart, 1.0)
        lagrange *= np.where(use, offset[:, k : k + 1] / apart, 1.0)
        slope += np.where(use, offset / apart, 0.0)
    lagrange = np.where(chosen.valid, lagrange, 0.0)
    if not with_rates:
        return lagrange, None
    return (1 - 2 * slope) * lagrange**2, offset * lagrange**2


def combine(
    weight: Float[np.ndarray, "Q nodes"],
    rows: Int[np.ndarray, "Q nodes"],
    values: Float[np.ndarray, "T *shape"],
) -> Float[np.ndarray, "Q *shape"]:
    """Σ_j weight_j values[rows_j], without touching points of weight zero (NaN × 0 is NaN)."""
    from scipy.sparse import csr_array

    used = weight != 0
    first = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    sums = csr_array((weight[used], rows[used], first), shape=(len(weight), len(values)))
    return (sums @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])


def interpolate(
    times: Float[np.ndarray, "T"],
    values: list[np.ndarray],
    rates: list[np.ndarray] | None,
    t: Float[np.ndarray, "Q"],
) -> list[np.ndarray]:
    """Each of `values` (time first) at the times t; exact at the saved times.

    Degree 7 with rates (four points), cubic without; less where fewer points are at hand.

    Args:
        times: distinct, in increasing order.
        values: leaves of the states, each (T, …), in float64.
        rates: their time derivatives, or None.
        t: inside [times[0], times[-1]].
    """
    if times.size == 1:
        return [value[np.zeros(t.size, dtype=int)] for value in values]
    chosen = stencil(times, t)
    of_value, of_rate = weights(times, t, chosen, rates is not None)
    result = [combine(of_value, chosen.rows, value) for value in values]
    if rates is not None and of_rate is not None:
        pairs = zip(result, rates, strict=True)
        result = [part + combine(of_rate, chosen.rows, rate) for part, rate in pairs]
    return result

"""The tail of a growing solution: how long it still takes, and with which power it grows."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

#: Nodes that are kept, one for each halving of the local time scale.
NODES = 64
#: Nodes that the extrapolation to T uses.
ORDER = 4
#: The power is fitted where T − t is this power of a unit in the last place of T − t₀ (1e-7 of it
#: in double precision), over a few decades about it.
FIT_AT, FIT_WIDTH = 0.44, 3.0


class Tail(eqx.Module):
    """The solution at nodes, each at half the time scale g of the one before; the newest last.

    Rows: the time elapsed; 1/(d log‖ẏ‖/dt), which is (T − t)/(p + 1) near a blow-up; log‖ẏ‖;
    log (y − y0)·ẏ.
    """

    rows: Float[Array, "4 nodes"]
    count: Int[Array, ""]
    scale: Float[Array, ""]  # g at the newest node

    def pushed(self, scale: Any, *values: Any) -> "Tail":
        """With one more node if g has halved; from the beginning again if it has grown."""
        grown = scale > 4 * self.scale
        new = grown | (scale <= self.scale / 2)
        rows = jnp.concatenate([self.rows[:, 1:], jnp.stack(values)[:, None]], axis=1)
        count = jnp.where(grown, 0, self.count) + new.astype(self.count.dtype)
        return Tail(
            rows=jnp.where(new, rows, self.rows),
            count=jnp.minimum(count, NODES),
            scale=jnp.where(new, scale, self.scale),
        )

    def valid(self) -> Array:
        """Which nodes are filled."""
        return jnp.arange(NODES, dtype=self.count.dtype) >= NODES - self.count


def empty(like: Array) -> Tail:
    """No nodes yet."""
    rows = jnp.zeros((4, NODES), like.dtype)
    return Tail(rows, jnp.zeros((), jnp.int32), jnp.full_like(like, jnp.inf))


def extrapolate(tail: Tail) -> tuple[Array, Array, Array]:
    """T − t₀ from the last nodes, its uncertainty, and whether it can be relied on.

    t as a function of v = ‖ẏ‖²/(ẏ·ÿ) is T − (p + 1) v + O(v²): Neville's scheme to v = 0, on
    nodes that lie a factor of two apart. Exponential growth has v constant, and a doubly
    exponential one has t = −log v, whose extrapolation does not settle.
    """
    now = tail.rows[0, -1]
    t, v = tail.rows[0, -ORDER:] - now, tail.rows[1, -ORDER:]
    ends = [t[-1]]
    for level in range(1, ORDER):
        far, near = v[:-level], v[level:]
        gap = jnp.where(far > near, far - near, 1)
        t = t[1:] + (t[1:] - t[:-1]) * near / gap
        ends.append(t[-1])
    ordered = jnp.all(v[:-1] > v[1:]) & (v[-1] > 0)
    remaining, spread = ends[-1], jnp.abs(ends[-1] - ends[-2])
    settled = (tail.count >= ORDER) & ordered & (remaining > 0) & (spread <= 1e-3 * remaining)
    return now + remaining, spread, settled


def shrinks(tail: Tail) -> Array:
    """Whether the remaining time, by its first extrapolation, at least halved over the last nodes:
    for a doubly exponential growth it does not."""
    t, v = tail.rows[0], tail.rows[1]
    gap = jnp.where(v[:-1] > v[1:], v[:-1] - v[1:], jnp.nan)
    remaining = (t[1:] - t[:-1]) * v[1:] / gap
    return (tail.count > ORDER) & (remaining[-1] <= remaining[-ORDER] / 2)


def powers(tail: Tail, blow_up: Any) -> tuple[Array, Array]:
    """p of ‖y − y0‖ ~ (T − t)^{−p} and q of ‖ẏ‖ ~ (T − t)^{−q−1}, by weighted least squares."""
    elapsed, _, log_speed, log_gain = tail.rows
    remaining = blow_up - elapsed
    usable = tail.valid() & (remaining > 0) & jnp.isfinite(log_speed + log_gain)
    x = jnp.log(jnp.where(usable, remaining, 1))
    centre = jnp.log(jnp.finfo(x.dtype).eps ** FIT_AT * blow_up)
    centre = jnp.maximum(centre, jnp.min(jnp.where(usable, x, jnp.inf)))
    weight = jnp.where(usable, jnp.exp(-(((x - centre) / FIT_WIDTH) ** 2)), 0)
    weight = weight / jnp.maximum(jnp.sum(weight), jnp.finfo(x.dtype).tiny)
    x = x - jnp.sum(weight * x)
    variance = jnp.sum(weight * x * x)

    def slope(values):
        values = jnp.where(usable, values, 0)
        return jnp.sum(weight * x * values) / jnp.where(variance > 0, variance, jnp.nan)

    return (-slope(log_gain) - 1) / 2, -slope(log_speed) - 1

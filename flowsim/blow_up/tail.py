"""The tail of a growing solution: how long it still takes, and with which power it grows."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

#: Nodes that are kept, one for each halving of the local time scale.
NODES = 64
#: Nodes that the extrapolation to T uses.
ORDER = 4
#: Threes of nodes that the extrapolation of a growth beyond all powers uses.
TRIPLES = 4
#: Bisections of its exponent.
BISECTIONS = 40
#: Its steps shrink by at least this factor (they halve for ẏ = y log(y)^m, but not for a growth
#: that has its limit in log log y); an exponent that leads to less than the second figure is zero.
SETTLING, LEAST_LIMIT = 0.75, 1e-3
#: The power is fitted where T − t is this power of a unit in the last place of T − t₀ (1e-9 of it
#: in double precision), but many units in that of T, over a few decades about it.
FIT_AT, FIT_ULPS, FIT_WIDTH = 0.575, 3e4, 3.0


class Tail(eqx.Module):
    """The solution at nodes, each at half the time scale g of the one before; the newest last.

    Rows: the time elapsed; 1/(d log‖ẏ‖/dt), which is (T − t)/(p + 1) near a blow-up; log‖ÿ‖; the
    logarithm of the derivative of (y − y₁)·ẏ, y₁ the state at some time before.
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


def beyond_powers(tail: Tail) -> tuple[Array, Array, Array, Array]:
    """T − t₀ where the growth is faster than any power: the same three, and whether the growth
    never ends (as a doubly exponential one).

    For ẏ = y log(y)^m, m > 1, T − t ~ v^β with β = (m − 1)/m; β = 0 is a logarithm, whose t has no
    bound. Each three nodes give a β and a T, the errors of either fall geometrically, and Aitken's
    scheme says where they lead; its last correction is the uncertainty.
    """
    now = tail.rows[0, -1]
    t, v = tail.rows[0, -TRIPLES - 2 :] - now, tail.rows[1, -TRIPLES - 2 :]
    enough = (tail.count >= TRIPLES + 2) & jnp.all(v[:-1] > v[1:]) & (v[-1] > 0)
    log_v = jnp.log(jnp.where(enough, v, jnp.exp2(-jnp.arange(v.size, dtype=v.dtype))))
    first, last = log_v[:-2] - log_v[1:-1], log_v[1:-1] - log_v[2:]
    slower = (t[1:-1] - t[:-2]) / (t[2:] - t[1:-1])

    def halve(_, bracket):
        low, high = bracket
        middle = (low + high) / 2
        below = _ratio(middle, first, last) < slower
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    bracket = jnp.full_like(first, -1), jnp.full_like(first, 2)
    power, _ = jax.lax.fori_loop(0, BISECTIONS, halve, bracket)
    ends = t[2:] + (t[2:] - t[1:-1]) / jnp.expm1(power * last)
    steps = jnp.diff(ends)
    shrink = steps[1:] / steps[:-1]
    correction = steps[-1] * shrink[-1] / (1 - shrink[-1])
    remaining = ends[-1] + correction
    settled = enough & (remaining > 0) & jnp.all((shrink > 0) & (shrink < SETTLING))
    limit = 2 * power[-1] - power[-2]
    endless = ~enough | (limit <= jnp.maximum(LEAST_LIMIT, 0.1 * power[-1]))
    return now + remaining, jnp.abs(correction), settled & ~endless, endless


def _ratio(power: Any, first: Any, last: Any) -> Array:
    """(v₁^β − v₂^β)/(v₂^β − v₃^β) from the logarithms of v₁/v₂ and v₂/v₃."""
    flat = jnp.abs(power) < 1e-9
    safe = jnp.where(flat, 1, power)
    return jnp.where(flat, first / last, -jnp.expm1(safe * first) / jnp.expm1(-safe * last))


def powers(tail: Tail, blow_up: Any, t: Any) -> tuple[Array, Array]:
    """p of ‖y − y0‖ ~ (T − t)^{−p} and q of ‖ẏ‖ ~ (T − t)^{−q−1}, by weighted least squares.

    Both are read off one derivative more, in which what does not blow up is soon the smaller.
    """
    elapsed, _, log_bend, log_gain = tail.rows
    remaining = blow_up - elapsed
    usable = tail.valid() & (remaining > 0) & jnp.isfinite(log_bend + log_gain)
    x = jnp.log(jnp.where(usable, remaining, 1))
    eps = jnp.finfo(x.dtype).eps
    centre = jnp.log(jnp.maximum(eps**FIT_AT * blow_up, FIT_ULPS * eps * jnp.abs(t)))
    centre = jnp.maximum(centre, jnp.min(jnp.where(usable, x, jnp.inf)))
    weight = jnp.where(usable, jnp.exp(-(((x - centre) / FIT_WIDTH) ** 2)), 0)
    weight = weight / jnp.maximum(jnp.sum(weight), jnp.finfo(x.dtype).tiny)
    x = x - jnp.sum(weight * x)
    variance = jnp.sum(weight * x * x)

    def slope(values):
        values = jnp.where(usable, values, 0)
        return jnp.sum(weight * x * values) / jnp.where(variance > 0, variance, jnp.nan)

    return -slope(log_gain) / 2 - 1, -slope(log_bend) - 2

"""Taylor-series integration of the Garnier system, which reads T* off its coefficients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up.reduction import Garnier

#: Order of the series. A step is the radius of convergence times REACH: the remainder is 1e-17.
ORDER = 21
REACH = 1e-17 ** (1 / ORDER)
#: Consecutive estimates of T* that agree to this are right to a few per cent of it: a step
#: shrinks the distance to the pole by 14 %, the error of the estimate by 0.86^ORDER = 0.04.
AGREEMENT = 1e-15
#: The accepted state lies this share of the last distance before the pole.
TAIL = 1e-8
#: Relative uncertainty of H beyond which the state is no longer believed.
LOST = 1e-3
#: k and 1/((k+1)(k+2)) of the stages of the recursion, two coefficients each.
EVEN = np.arange(0, ORDER - 1, 2, dtype=np.int32)
FACTORS = np.stack([1 / ((EVEN + i + 1.0) * (EVEN + i + 2.0)) for i in (0, 1)], axis=1)
ROUNDING = 8 * np.finfo(np.float64).eps
MAX_STEPS = 2000


class Progress(eqx.Module):
    """Where the integration stands; `time` is the sum time + time_low."""

    time: Float[Array, ""]
    time_low: Float[Array, ""]
    position: Float[Array, "rows h"]
    velocity: Float[Array, "rows h"]
    estimate: Float[Array, ""]  # of T*
    tail: Float[Array, ""]  # T* − t at the accepted state
    arrived: Bool[Array, ""]
    steps: Int[Array, ""]
    energy_level: Float[Array, ""]  # H at the start
    largest: Float[Array, ""]  # of the sum of the sizes of H's terms, so far
    uncertainty: Float[Array, ""]  # relative, of the state: rounding and drift of H
    error: Float[Array, ""]  # of T*, in time


def integrate_to_blow_up(
    system: Garnier, rounding_floor: Float[Array, ""], still: Bool[Array, ""]
) -> Progress:
    """Taylor steps until T* can be read off the coefficients, then to just before the pole.

    Args:
        system: the start, scaled to about unit size.
        rounding_floor: what the rounding of the start adds to the sizes of H's terms.
        still: the start is an equilibrium; nothing is done.
    """
    level, size = hamiltonian(system, system.position[0], system.velocity[0])
    zero = jnp.zeros_like(level)
    start = Progress(
        time=zero,
        time_low=zero,
        position=system.position,
        velocity=system.velocity,
        estimate=zero,
        tail=zero,
        arrived=jnp.zeros_like(level, bool),
        steps=jnp.zeros_like(level, jnp.int32),
        energy_level=level,
        largest=size + rounding_floor,
        uncertainty=jnp.where(still, jnp.inf, 0.0),
        error=zero,
    )
    return jax.lax.while_loop(_goes_on, lambda progress: _step(system, progress), start)


def hamiltonian(system: Garnier, q: Float[Array, " h"], p: Float[Array, " h"]):
    """H = ½‖p‖² − ½‖q‖⁴ + ½ D‖q‖² + ½ qᵀAq and the sum of the sizes of its terms."""
    u = jnp.sum(q * q)
    bent = jnp.sum(q * system.curved(jnp.broadcast_to(q, system.position.shape))[0])
    kinetic, quartic, shifted = jnp.sum(p * p), u * u, system.shift * u
    level = 0.5 * ((kinetic - quartic) + (shifted + bent))
    return level, 0.5 * (kinetic + quartic + jnp.abs(shifted) + jnp.abs(bent))


def taylor_coefficients(
    system: Garnier, position: Float[Array, "rows h"], velocity: Float[Array, "rows h"]
) -> Float[Array, "orders rows h"]:
    """a_0 … a_ORDER of the solution at (position, velocity).

    s_k = Σ_j a_j·a_{k−j},  (k+1)(k+2) a_{k+2} = 2 Σ_j s_j a_{k−j} − (D + A) a_k.  The equation is
    of second order, so a_{k+2} and a_{k+3} both follow from a_0 … a_{k+1}: two at a time, in a
    loop (unrolled, the same recursion takes four times as long to compile).
    """
    zeros = jnp.zeros((ORDER - 1, *position.shape))
    found = jnp.concatenate([position[None], velocity[None], zeros])
    reverse = jnp.concatenate([velocity[None], position[None], zeros[1:]])  # a_{k+1}, a_k, …
    squares = jnp.zeros(ORDER - 1)

    def two_more(carry, stage):
        found, reverse, squares = carry
        k, factors = stage
        pair = reverse[1::-1]
        bent = system.shift * pair + system.curved(pair)
        windows = jnp.stack([reverse[1:], reverse[:-1]])
        products = jnp.sum(found[None, : ORDER - 1, 0] * windows[:, :, 0], axis=(1, 2))
        squares = jax.lax.dynamic_update_slice(squares, products, (k,))
        convolved = jnp.sum(squares[None, :, None, None] * windows, axis=1)
        new = (2 * convolved - bent) * factors[:, None, None]
        new = jax.lax.optimization_barrier(new)  # computed once, used twice
        found = jax.lax.dynamic_update_slice(found, new, (k + 2, 0 * k, 0 * k))
        return (found, jnp.concatenate([new[::-1], reverse[:-2]]), squares), None

    stages = (jnp.asarray(EVEN), jnp.asarray(FACTORS))
    return jax.lax.scan(two_more, (found, reverse, squares), stages)[0][0]


def _goes_on(progress):
    lost = ~(progress.uncertainty < LOST)
    return ~progress.arrived & ~lost & (progress.steps < MAX_STEPS)


def _step(system, progress):
    a = taylor_coefficients(system, progress.position, progress.velocity)
    largest, uncertainty, drift = _trust(system, progress)
    distance, mismatch = _distance_to_pole(a)
    estimate = progress.time + (progress.time_low + distance)
    arrived = _believable(a, distance, mismatch) & (
        jnp.abs(estimate - progress.estimate) <= AGREEMENT * estimate
    )
    tail = TAIL * distance
    step = jnp.where(arrived, distance - tail, REACH * _radius(a))
    position, velocity = _advance(a, step, arrived, distance, tail)
    time, low = _add(progress.time, progress.time_low, step)
    return Progress(
        time=time,
        time_low=low,
        position=position,
        velocity=velocity,
        estimate=estimate,
        tail=tail,
        arrived=arrived,
        steps=progress.steps + 1,
        energy_level=progress.energy_level,
        largest=largest,
        uncertainty=uncertainty,
        error=jnp.abs(estimate - progress.estimate) + (mismatch + drift) * jnp.abs(distance),
    )


def _trust(system, progress):
    """Largest size of H's terms so far, relative uncertainty of the state, drift of H now."""
    level, size = hamiltonian(system, progress.position[0], progress.velocity[0])
    largest = jnp.maximum(progress.largest, size)
    drift = jnp.abs(level - progress.energy_level)
    relative = jnp.where(largest > 0, (ROUNDING * largest + drift) / size, 0.0)
    return largest, jnp.maximum(progress.uncertainty, relative), drift / size


def _distance_to_pole(a):
    """τ = (u·a_{N−1})/(u·a_N), u along a_N, and the relative error that ‖a_N‖ τ^{N+1} = 1 shows.

    Near a simple pole with unit residue a_k → n τ^{−(k+1)} ([theory.md], section 5).
    """
    top, below = a[ORDER][0], a[ORDER - 1][0]
    size = jnp.max(jnp.abs(top))
    unit = top / size
    square = jnp.sum(unit * unit)
    distance = jnp.sum(unit * (below / size)) / square
    residue = size * jnp.sqrt(square) * distance ** (ORDER + 1)
    return distance, jnp.abs(residue - 1) / (ORDER + 1)


def _believable(a, distance, mismatch):
    """Ahead of t, E > 0, T* − t ≤ E^{−1/3} [CL 11], and a pole of unit residue."""
    E = jnp.sum(a[0][0] * a[1][0])
    return (distance > 0) & (E > 0) & (E * distance**3 <= 1 + 1e-9) & (mismatch < 1e-6)


def _radius(a):
    """Root test on the last two coefficients; where a_0 is small a_1 gives the scale."""
    sizes = jnp.max(jnp.abs(a[:, 0]), axis=1)
    last, orders = sizes[ORDER - 1 :], jnp.asarray([ORDER - 1.0, float(ORDER)])
    by_velocity = jnp.min((sizes[1] / last) ** (1 / (orders - 1)))
    scale = jnp.maximum(sizes[0], jnp.where(sizes[1] > 0, sizes[1] * by_velocity, 0.0))
    return jnp.min((scale / last) ** (1 / orders))


def _advance(a, step, arrived, distance, tail):
    """State at t + step; for the last step the pole n/(τ − s) is taken out of the series first."""
    norms = jnp.sqrt(jnp.sum(a[ORDER] ** 2, axis=1, keepdims=True))
    n = jnp.where(arrived & (norms > 0), a[ORDER] / norms, 0.0)
    orders = jnp.arange(ORDER + 1.0)
    inverse = jnp.where(arrived, 1 / distance, 0.0)
    regular = a - n * (inverse ** (orders + 1))[:, None, None]
    powers = step**orders
    ahead = jnp.where(arrived, 1 / tail, 0.0)
    position = _sum_of(powers[1:], regular[1:]) + (regular[0] + n * ahead)
    velocity = _sum_of(powers[1:-1] * orders[2:], regular[2:])
    return position, velocity + (regular[1] + n * (ahead * ahead))


def _sum_of(factors, terms):
    return jnp.sum((factors[:, None, None] * terms)[::-1], axis=0)


def _add(high, low, step):
    """high + low + step with the rounding error kept in the low part."""
    total = high + step
    back = total - high
    return total, low + ((high - (total - back)) + (step - back))

"""Taylor-series integration of the Garnier system, which reads T* off its coefficients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up.reduction import Garnier
from flowsim.blow_up.series import (
    ORDER,
    Leading,
    State,
    advance,
    leading_terms,
    taylor_coefficients,
)
from flowsim.blow_up.two_part import shortened, split, two_sum

#: A step is the radius of convergence times REACH: the remainder is 1e-20.
REACH = 1e-20 ** (1 / ORDER)
#: The last three ratios of coefficients agree to this share of T* when it is accepted; the last is
#: better than that by the factor (T* − t)/(distance of the next singularity).
AGREEMENT = 1e-15
#: The accepted state lies this share of the last distance before the pole.
TAIL = 1e-8
#: Relative uncertainty of the state beyond which it is no longer believed.
LOST = 1e-3
#: Relative rounding of one evaluation in float64, and of a whole step in two parts (1e-19 was
#: measured; the rest is safety).
ROUNDING = 8 * np.finfo(np.float64).eps
STEP_ROUNDING = np.finfo(np.float64).eps / 4
MAX_STEPS = 2000


class Progress(eqx.Module):
    """Where the integration stands; t is the sum time + time_fine."""

    time: Float[Array, ""]
    time_fine: Float[Array, ""]
    state: State
    estimate: Float[Array, ""]  # of T*
    tail: Float[Array, ""]  # T* − t at the accepted state
    arrived: Bool[Array, ""]
    steps: Int[Array, ""]
    level: Float[Array, ""]  # H at the start
    largest: Float[Array, ""]  # of the sum of the sizes of H's terms, so far
    uncertainty: Float[Array, ""]  # relative, of the state: rounding and drift of H
    error: Float[Array, ""]  # of T*, in time, from reading it off


def integrate_to_blow_up(
    system: Garnier, uncertainty: Float[Array, ""], unrolled: bool = False
) -> Progress:
    """Taylor steps until T* can be read off the coefficients, then to just before the pole.

    Args:
        system: the start, scaled to about unit size.
        uncertainty: relative, of the start; nothing is done if it is infinite.
        unrolled: see `taylor_coefficients`.
    """
    rows = system.position, system.velocity
    zero = jnp.zeros_like(uncertainty)
    start = Progress(
        time=zero,
        time_fine=zero,
        state=State(*rows, jnp.zeros_like(system.position), system.velocity_fine),
        estimate=zero,
        tail=zero,
        arrived=jnp.zeros_like(zero, bool),
        steps=jnp.zeros_like(zero, jnp.int32),
        level=zero,
        largest=zero,
        uncertainty=uncertainty,
        error=zero,
    )
    parts = jnp.stack(split(system.curvature[0], system.curvature_fine[0]))

    def step(progress):
        return _step(system, parts, progress, unrolled)

    return jax.lax.while_loop(_goes_on, step, start)


def hamiltonian(system: Garnier, state: State, leading: Leading) -> tuple[Array, Array]:
    """H = ½‖p‖² − ½‖q‖⁴ + ½ D‖q‖² + ½ qᵀAq and the sum of the sizes of its terms."""
    u = leading.squares[0]
    bent = jnp.sum(state.position[0] * leading.bent)
    kinetic, quartic, shifted = jnp.sum(state.velocity[0] ** 2), u * u, system.shift * u
    level = 0.5 * ((kinetic - quartic) + (shifted + bent))
    return level, 0.5 * (kinetic + quartic + jnp.abs(shifted) + jnp.abs(bent))


def _goes_on(progress):
    lost = ~(progress.uncertainty < LOST)
    return ~progress.arrived & ~lost & (progress.steps < MAX_STEPS)


def _step(system, parts, progress, unrolled):
    leading = leading_terms(system, parts, progress.state)
    a = taylor_coefficients(system, progress.state, leading, unrolled)
    level, largest, uncertainty = _trust(progress, *hamiltonian(system, progress.state, leading))
    distance, error = _distance_to_pole(a)
    estimate = progress.time + (progress.time_fine + distance)
    read = _believable(a, distance) & (error <= AGREEMENT * estimate)
    arrived = read & (uncertainty < LOST)
    tail = TAIL * distance
    step = jnp.where(arrived, distance - tail, step_length(a))
    state = advance(progress.state, leading, a, step)
    time, fine = two_sum(progress.time, step)
    return Progress(
        time=time,
        time_fine=progress.time_fine + fine,
        state=_with_pole(state, a[ORDER], arrived, distance, step),
        estimate=estimate,
        tail=tail,
        arrived=arrived,
        steps=progress.steps + 1,
        level=level,
        largest=largest,
        uncertainty=uncertainty,
        error=error,
    )


def _trust(progress, now, size):
    """H at the start, largest size of its terms so far, largest relative uncertainty of the state.

    A drift of H counts as far as it exceeds the rounding of H's own evaluation.
    """
    level = jnp.where(progress.steps == 0, now, progress.level)
    largest = jnp.maximum(progress.largest, size)
    drift = jnp.abs(now - level) - ROUNDING * (size + jnp.abs(level))
    worst = (STEP_ROUNDING * largest + jnp.maximum(drift, 0.0)) / size
    return level, largest, jnp.maximum(progress.uncertainty, jnp.where(largest > 0, worst, 0.0))


def _distance_to_pole(a):
    """τ = (u·a_{N−1})/(u·a_N), u along a_N, and its error.

    Near a simple pole with unit residue a_k → n τ^{−(k+1)} (theory.md, section 5). The error is
    that of the ratio two orders back, plus what ‖a_N‖ τ^{N+1} = 1 shows.
    """
    size = jnp.max(jnp.abs(a[ORDER, 0]))
    last = a[ORDER - 3 :, 0] / size
    along = jnp.sum(last * last[-1], axis=1)
    ratios = along[:-1] / along[1:]
    distance = ratios[-1]
    residue = size * jnp.sqrt(along[-1]) * distance ** (ORDER + 1)
    mismatch = jnp.abs(residue - 1) / (ORDER + 1)
    return distance, jnp.max(jnp.abs(ratios - distance)) + mismatch * jnp.abs(distance)


def _believable(a, distance):
    """Ahead of t, with E > 0 and T* − t ≤ E^{−1/3} [CL 11]."""
    E = jnp.sum(a[0, 0] * a[1, 0])
    return (distance > 0) & (E > 0) & (E * distance**3 <= 1 + 1e-9)


def step_length(a: Float[Array, "orders rows h"]) -> Float[Array, ""]:
    """REACH times the radius of convergence, cut to four bits.

    Root test on the last two coefficients; where a_0 is small a_1 gives the scale.
    """
    sizes = jnp.max(jnp.abs(a[:, 0]), axis=1)
    last, orders = sizes[ORDER - 1 :], jnp.asarray([ORDER - 1.0, float(ORDER)])
    by_velocity = jnp.min((sizes[1] / last) ** (1 / (orders - 1)))
    scale = jnp.maximum(sizes[0], jnp.where(sizes[1] > 0, sizes[1] * by_velocity, 0.0))
    return shortened(REACH * jnp.min((scale / last) ** (1 / orders)))


def _with_pole(state, top, arrived, distance, step):
    """What the series leaves out of the pole n/(τ − s), added for the last step.

    n is along a_N, of size one in row 0; row 1 has the residue that belongs to it.
    """
    size = jnp.sqrt(jnp.sum(top[0] ** 2))
    n = jnp.where(arrived & (size > 0), top / size, 0.0)
    orders = jnp.arange(ORDER + 1.0)
    terms = jnp.exp(orders * jnp.log(step / distance)) / distance
    ahead = 1 / (distance - step)
    position = jnp.where(arrived, ahead - jnp.sum(terms), 0.0)
    velocity = jnp.where(arrived, ahead**2 - jnp.sum(orders * terms) / step, 0.0)
    return State(
        state.position + n * position,
        state.velocity + n * velocity,
        state.position_fine,
        state.velocity_fine,
    )

"""The second engine: the reduced system by an adaptive Runge–Kutta method of diffrax."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up.packing import packed_scalars
from flowsim.blow_up.reduction import Garnier
from flowsim.blow_up.user_fields import solve_to_blow_up
from flowsim.blow_up.verdict import NEVER, PROVED, UNDECIDED

RTOL = 1e-12
Rows = Float[Array, "rows h"]


def rate(t: Float[Array, ""], state: tuple[Rows, Rows], system: Garnier) -> tuple[Rows, Rows]:
    """q̈ = (2‖q‖² − D) q − A q, and what moves along with it (theory.md, section 4)."""
    position, velocity = state
    factor = 2 * jnp.sum(position[0] ** 2) - system.shift
    return velocity, factor * position - system.curved(position)


def solve_by_runge_kutta(
    system: Garnier,
    uncertainty: Float[Array, ""],
    still: Bool[Array, ""],
    exponent: Int[Array, ""],
) -> tuple[Float[Array, "6"], Float[Array, "rows h"]]:
    """`reduced.solve` in desingularised time (`solve_to_blow_up`), in plain double precision.

    It shares nothing with the Taylor engine but the system; the bounds are time ± the error
    estimate of two runs at different tolerances, widened by the uncertainty of the start.
    """
    found = solve_to_blow_up(rate, (system.position, system.velocity), args=system, rtol=RTOL)
    position, velocity = found.state
    arrived = (found.outcome == "blow_up") & (jnp.sum(position[0] * velocity[0]) > 0)
    slack = jnp.where(arrived, found.error + uncertainty * found.time, 0.0)
    times = jnp.stack([found.time, found.time - slack, found.time + slack])
    times = jnp.where(arrived, times, jnp.asarray([jnp.inf, 0.0, jnp.inf]))
    times = jnp.where(still, jnp.inf, times)
    energy = jnp.sum(system.position[0] * system.velocity[0])
    verdict = jnp.where(arrived, PROVED, jnp.where(still, NEVER, UNDECIDED))
    norms = jnp.sqrt(jnp.sum(position * position, axis=1, keepdims=True))
    direction = jnp.where(arrived, position / norms, 0.0)
    return packed_scalars(times, energy, verdict, jnp.asarray(found.steps), exponent), direction

"""Blow-up of the Garnier system given directly: O(h) memory in its eigenbasis."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flowsim.blow_up.reduction import Garnier, theta_offset
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.blow_up.taylor import ROUNDING, Progress, integrate_to_blow_up
from flowsim.blow_up.verdict import NEVER, PROVED, UNDECIDED, Verdict


class ReducedBlowUp(eqx.Module):
    """Blow-up of a Garnier system, in the unit of time of the data as given.

    `direction` holds the unit vectors along which the rows of the state blow up, zero where none
    was found. `time` and `upper` are infinite unless `verdict` is "proved".
    """

    time: Float[Array, ""]
    lower: Float[Array, ""]
    upper: Float[Array, ""]
    verdict: Verdict
    energy: Float[Array, ""]
    direction: Float[Array, "rows h"]
    steps: Int[Array, ""]


@jax.jit
def reduced_blow_up_time(
    position: Float[Array, " h"],
    velocity: Float[Array, " h"],
    curvature: Float[Array, " h"] | Float[Array, "h h"],
    shift: Float[Array, ""],
) -> ReducedBlowUp:
    """Blow-up time of q̈ = (2‖q‖² − D) q − A q (theory.md, sections 4 and 5).

    Pure and traceable: `vmap` it over many starts. Choose the smaller of a system and its partner,
    the one with D ≤ 0; with D > 0 a large ‖q‖ costs digits.

    Args:
        position: q = U^T w in the eigenbasis of A, or w itself.
        velocity: q̇ = U^T W_1 W_2, or x = W_1 W_2.
        curvature: the eigenvalues α of A, or A itself.
        shift: D = ‖w‖² − ‖W_2‖².
    """
    sizes = [
        jnp.max(jnp.abs(position)),
        jnp.sqrt(jnp.max(jnp.abs(velocity))),
        jnp.sqrt(jnp.max(jnp.abs(curvature))),
        jnp.sqrt(jnp.abs(shift)),
    ]
    exponent = binary_exponent(jnp.max(jnp.stack(sizes)))
    system = Garnier.of(
        times_power_of_two(position, -exponent),
        times_power_of_two(velocity, -2 * exponent),
        times_power_of_two(curvature, -2 * exponent),
        times_power_of_two(shift, -2 * exponent),
    )
    still = ~jnp.any((position != 0) | (velocity != 0))
    return in_original_units(solve(system, jnp.zeros_like(system.shift), still), exponent)


def solve(system: Garnier, uncertainty: Float[Array, ""], still: Array) -> ReducedBlowUp:
    """The same for a scaled system whose start is known up to the relative `uncertainty`.

    `still`: the start is an equilibrium.
    """
    progress = integrate_to_blow_up(system, jnp.where(still, jnp.inf, uncertainty))
    lower, upper = _bracket(system, progress)
    verdict = jnp.where(progress.arrived, PROVED, jnp.where(still, NEVER, UNDECIDED))
    end = progress.state.position
    norms = jnp.sqrt(jnp.sum(end * end, axis=1, keepdims=True))
    return ReducedBlowUp(
        time=jnp.where(progress.arrived, progress.estimate, jnp.inf),
        lower=jnp.where(still, jnp.inf, lower),
        upper=upper,
        verdict=Verdict(verdict.astype(jnp.int32)),
        energy=jnp.sum(system.position[0] * system.velocity[0]),
        direction=jnp.where(progress.arrived, end / norms, 0.0),
        steps=progress.steps,
    )


def _bracket(system: Garnier, progress: Progress) -> tuple[Array, Array]:
    """sqrt(3/N) ≤ T* − t ≤ E^{−1/3} [CL 11] at the last state, widened by the error up to it.

    There the two agree to rounding; before arrival the first state gives the lower bound.
    """
    offset = theta_offset(system)
    q, p = progress.state.position[0], progress.state.velocity[0]
    squares = jnp.stack([jnp.sum(system.position[0] ** 2), jnp.sum(q * q)])
    lowers = jnp.sqrt(3 / (3 * squares + offset)) * (1 - ROUNDING)
    slack = (ROUNDING + progress.uncertainty) * progress.estimate + progress.error
    before = progress.estimate - progress.tail
    lower = jnp.where(progress.arrived, before + lowers[1] - slack, 0.0)
    upper = before + jnp.cbrt(1 / jnp.sum(q * p)) + slack
    return jnp.maximum(lower, lowers[0]), jnp.where(progress.arrived, upper, jnp.inf)


def in_original_units(found: ReducedBlowUp, exponent: Int[Array, ""]) -> ReducedBlowUp:
    """Undo the scaling θ → 2^−exponent θ."""
    times = jnp.stack([found.time, found.lower, found.upper])
    time, lower, upper = times_power_of_two(times, -exponent)
    energy = times_power_of_two(found.energy, 3 * exponent)
    return eqx.tree_at(
        lambda f: (f.time, f.lower, f.upper, f.energy), found, (time, lower, upper, energy)
    )

"""Blow-up of the Garnier system given directly: O(h) memory in its eigenbasis."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim import checks
from flowsim.blow_up.one_kernel import one_kernel
from flowsim.blow_up.packing import SCALARS, Count, Number, packed_scalars, unpacked
from flowsim.blow_up.reduction import Garnier, theta_offset
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.blow_up.taylor import ROUNDING, Progress, integrate_to_blow_up
from flowsim.blow_up.verdict import NEVER, PROVED, UNDECIDED, Verdict


class ReducedBlowUp(eqx.Module):
    """Blow-up of a Garnier system, in the unit of time of the data as given.

    `time` and `upper` are infinite unless `verdict` is "proved"; `lower` holds in any case.
    `direction` is the unit vector n of q ~ n/(T*−t), zero where no blow-up was found.
    """

    time: Number
    lower: Number
    upper: Number
    verdict: Verdict
    energy: Number
    direction: Float[Array, "... h"] | Float[np.ndarray, "... h"]
    steps: Count


def reduced_blow_up_time(
    position: Float[Array, " h"] | Float[np.ndarray, " h"],
    velocity: Float[Array, " h"] | Float[np.ndarray, " h"],
    curvature: Float[Array, "*square"] | Float[np.ndarray, "*square"],
    shift: Number,
) -> ReducedBlowUp:
    """Blow-up time of q̈ = (2‖q‖² − D) q − A q (theory.md, sections 4 and 5), in O(h) memory.

    Pure and traceable: `vmap` it over many starts. Choose the smaller of a system and its partner,
    the one with D ≤ 0; with D > 0 a large ‖q‖ costs digits.

    Args:
        position: q = U^T w in the eigenbasis of A, or w itself.
        velocity: q̇ = U^T W_1 W_2, or x = W_1 W_2.
        curvature: the eigenvalues α of A, (h,), or A itself, (h, h).
        shift: D = ‖w‖² − ‖W_2‖².
    """
    checks.double_precision("reduced_blow_up_time")
    start = (position, velocity, curvature, shift)
    diagonal, traced = np.ndim(curvature) == 1, checks.is_traced(start)
    packed = (_packed_at_once if diagonal and not traced else _packed_usual)(*start)
    if not traced:
        packed = np.asarray(packed)
    return unpacked(ReducedBlowUp, packed, direction=packed[SCALARS:])


def _packed_reduced(position, velocity, curvature, shift):
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
        times_power_of_two(jnp.asarray(shift, float), -2 * exponent),
    )
    still = ~jnp.any((position != 0) | (velocity != 0))
    diagonal = jnp.ndim(curvature) == 1
    scalars, direction = solve(system, jnp.zeros(()), still, exponent, unrolled=diagonal)
    return jnp.concatenate([scalars, direction[0]])


_packed_usual, _packed_at_once = jax.jit(_packed_reduced), one_kernel(_packed_reduced)


def solve(
    system: Garnier,
    uncertainty: Float[Array, ""],
    still: Bool[Array, ""],
    exponent: Int[Array, ""],
    unrolled: bool = False,
) -> tuple[Float[Array, "6"], Float[Array, "rows h"]]:
    """Packed scalars and directions of a system scaled by 2^−exponent.

    Args:
        system: the start, scaled; the numbers returned are in original units.
        uncertainty: relative, of the start.
        still: the start is an equilibrium.
    """
    uncertainty = jnp.where(still, jnp.inf, uncertainty)
    progress = integrate_to_blow_up(system, uncertainty, unrolled)
    lower, upper = _bracket(system, progress)
    times = jnp.where(progress.arrived, jnp.stack([progress.estimate, lower, upper]), jnp.inf)
    times = times.at[1].set(jnp.where(still, jnp.inf, lower))
    energy = jnp.sum(system.position[0] * system.velocity[0])
    verdict = jnp.where(progress.arrived, PROVED, jnp.where(still, NEVER, UNDECIDED))
    end = progress.state.position
    norms = jnp.sqrt(jnp.sum(end * end, axis=1, keepdims=True))
    direction = jnp.where(progress.arrived, end / norms, 0.0)
    return packed_scalars(times, energy, verdict, progress.steps, exponent), direction


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

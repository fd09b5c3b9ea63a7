"""Two-sided bounds on the time to blow-up from any state (theory.md, section 5)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from flowsim.blow_up.carlson import elliptic_rf
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.observables import invariants

#: What underflows is raised to this; larger arguments lower R_F, so a lower bound stays one.
SMALLEST = 1e-290
#: Outward widening of every bound for its own rounding.
ROUNDING = 16 * np.finfo(np.float64).eps


class Bounds(eqx.Module):
    """Bounds on T* − t from one state of the leading-order flow, in the state's own time.

    The lower ones hold whenever there is blow-up, the upper ones prove it; they are infinite for
    E ≤ 0. `lower` and `upper` are the tightest of each kind.
    """

    lower: Float[Array, "*batch"]
    upper: Float[Array, "*batch"]
    #: sqrt(3/N), N = ‖w‖² + ‖W_1‖² + ‖W_2‖².
    norm_lower: Float[Array, "*batch"]
    #: E^{−1/3}, the paper's bound [CL 11].
    energy_upper: Float[Array, "*batch"]
    #: Elliptic bounds of the w-system and of its partner, the W_2-system.
    value_lower: Float[Array, "*batch"]
    value_upper: Float[Array, "*batch"]
    hidden_lower: Float[Array, "*batch"]
    hidden_upper: Float[Array, "*batch"]


@jax.jit
def blow_up_bounds(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> Bounds:
    """Every bound on T* that the state alone gives, without integrating; pure and traceable."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in (W_v, W_1, W_2)]))
    exponent = binary_exponent(largest)
    w, first, second = (times_power_of_two(a, -exponent) for a in (W_v, W_1, W_2))
    energy = invariants.energy(w, first, second)
    square = sum(jnp.sum(a * a) for a in (w, first, second))
    value = _elliptic(w, first, second, energy)
    hidden = _elliptic(second, first.T, w, energy)
    positive = energy > ROUNDING * jnp.sqrt(square) ** 3
    paper = jnp.where(positive, 1 / jnp.cbrt(jnp.where(positive, energy, 1.0)), jnp.inf)
    lowers = jnp.stack([jnp.sqrt(3 / square), value[0], hidden[0]]) * (1 - ROUNDING)
    uppers = jnp.stack([paper, value[1], hidden[1]]) * (1 + ROUNDING)
    uppers = jnp.where(positive, uppers, jnp.inf)
    found = jnp.stack([jnp.max(lowers), jnp.min(uppers), *lowers, *uppers])
    lower, upper, *parts = times_power_of_two(found, -exponent)
    return Bounds(
        lower=lower,
        upper=upper,
        norm_lower=parts[0],
        energy_upper=parts[3],
        value_lower=parts[1],
        value_upper=parts[4],
        hidden_lower=parts[2],
        hidden_upper=parts[5],
    )


def _elliptic(w, first, second, energy):
    """`elliptic_bounds` of the w-system of a full state; wᵀAw = u² − ‖W_1ᵀw‖²."""
    u = jnp.sum(w * w)
    alpha = jnp.linalg.eigvalsh(invariants.value_invariant(w, first))
    slack = ROUNDING * (u + jnp.sum(first * first))
    return elliptic_bounds(
        u=u,
        speed2=jnp.sum((first @ second) ** 2),
        bent=u * u - jnp.sum((w @ first) ** 2),
        energy=energy,
        partner2=jnp.sum(second * second),
        alpha=(alpha[0] - slack, alpha[-1] + slack),
    )


def elliptic_bounds(
    u: Float[Array, ""],
    speed2: Float[Array, ""],
    bent: Float[Array, ""],
    energy: Float[Array, ""],
    partner2: Float[Array, ""],
    alpha: tuple[Float[Array, ""], Float[Array, ""]],
) -> Float[Array, "2"]:
    """R_F(u, λ₊, λ₋) on both sides of T* − t, with λ₊ + λ₋ = b and λ₊ λ₋ = q.

    Lower, whatever the sign of E: b = ‖W_2‖² + u − α_min, q = ‖x‖² + wᵀAw − α_min u.
    Upper, for E > 0 (else infinite): b = ‖W_2‖² + u − α_max, q = E²/u.

    Args:
        u: ‖w‖².
        speed2: ‖x‖², x = W_1 W_2.
        bent: wᵀAw.
        energy: E = w·x.
        partner2: ‖W_2‖².
        alpha: numbers below and above every eigenvalue of A.
    """
    rises: Bool[Array, ""] = (energy > 0) & (u > 0)
    slow = jnp.where(rises, energy * (energy / jnp.where(u > 0, u, 1.0)), 1.0)
    total = jnp.stack([partner2 + (u - bound) for bound in alpha])
    product = jnp.stack([speed2 + (bent - alpha[0] * u), slow])
    lower, upper = elliptic_rf(*(jnp.maximum(a, SMALLEST) for a in (u[None], total, product)))
    return jnp.stack([lower, jnp.where(rises, upper, jnp.inf)])

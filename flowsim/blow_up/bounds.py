"""Two-sided bounds on the time to blow-up from any state (theory.md, section 5)."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up.carlson import elliptic_rf
from flowsim.blow_up.reduction import Garnier

#: What underflows is raised to this; larger arguments lower R_F, so the bound stays one.
SMALLEST = 1e-290


def elliptic_bounds(
    u: Float[Array, "*states"],
    speed2: Float[Array, "*states"],
    bent: Float[Array, "*states"],
    energy: Float[Array, "*states"],
    partner2: Float[Array, "*states"],
    alpha: tuple[Float[Array, ""], Float[Array, ""]],
) -> tuple[Float[Array, "*states"], Float[Array, "*states"]]:
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
    rises = (energy > 0) & (u > 0)
    slow = jnp.where(rises, energy * (energy / jnp.where(u > 0, u, 1.0)), 1.0)
    total = jnp.stack([partner2 + (u - bound) for bound in alpha])
    product = jnp.stack([speed2 + (bent - alpha[0] * u), slow])
    raised = (jnp.maximum(a, SMALLEST) for a in (u[None], total, product))
    lower, upper = elliptic_rf(*raised)
    return lower, jnp.where(rises, upper, jnp.inf)


def garnier_bounds(
    system: Garnier,
    position: Float[Array, "states rows h"],
    velocity: Float[Array, "states rows h"],
    alpha_min: Float[Array, ""],
    alpha_max: Float[Array, ""],
) -> tuple[Float[Array, " states"], Float[Array, " states"]]:
    """Lower and upper bounds on T* − t from states of the Garnier system."""
    q, p = position[:, 0], velocity[:, 0]
    u = jnp.sum(q * q, axis=1)
    return elliptic_bounds(
        u=u,
        speed2=jnp.sum(p * p, axis=1),
        bent=jnp.sum(q * system.curved(position)[:, 0], axis=1),
        energy=jnp.sum(q * p, axis=1),
        partner2=jnp.maximum(u - system.shift, 0.0),
        alpha=(alpha_min, alpha_max),
    )

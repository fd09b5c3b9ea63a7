"""Two-sided bounds on the time to blow-up from any state (theory.md, section 5)."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from flowsim.blow_up.carlson import elliptic_rf
from flowsim.blow_up.reduction import Garnier

#: What underflows is raised to this; larger arguments lower R_F, so the bound stays one.
SMALLEST = 1e-290


def elliptic_lower(u, speed2, bent, partner2, alpha_min) -> Array:
    """R_F(u, λ₊, λ₋) ≤ T* − t, whatever the sign of E.

    λ₊ + λ₋ = b = ‖W_2‖² + u − α_min,  λ₊ λ₋ = q = ‖x‖² + wᵀAw − α_min u.
    """
    total = jnp.maximum(partner2 + (u - alpha_min), SMALLEST)
    product = jnp.maximum(speed2 + (bent - alpha_min * u), SMALLEST)
    return elliptic_rf(jnp.maximum(u, SMALLEST), total, product)


def elliptic_upper(u, energy, partner2, alpha_max) -> Array:
    """T* − t ≤ R_F(u, λ₊, λ₋) for E > 0: b = ‖W_2‖² + u − α_max, q = E²/u; else infinity."""
    total = jnp.maximum(partner2 + (u - alpha_max), 0.0)
    positive = (energy > 0) & (u > 0)
    product = jnp.where(positive, energy * (energy / jnp.where(u > 0, u, 1.0)), 1.0)
    return jnp.where(positive, elliptic_rf(u, total, product), jnp.inf)


def garnier_bounds(
    system: Garnier,
    q: Float[Array, " h"],
    p: Float[Array, " h"],
    alpha_min: Float[Array, ""],
    alpha_max: Float[Array, ""],
) -> tuple[Array, Array]:
    """Lower and upper bound on T* − t from a state of the Garnier system."""
    u, energy = jnp.sum(q * q), jnp.sum(q * p)
    bent = jnp.sum(q * system.curved(jnp.broadcast_to(q, system.position.shape))[0])
    partner2 = jnp.maximum(u - system.shift, 0.0)
    lower = elliptic_lower(u, jnp.sum(p * p), bent, partner2, alpha_min)
    return lower, elliptic_upper(u, energy, partner2, alpha_max)

"""Blow-up time of the leading-order flow: the public door."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from flowsim import checks
from flowsim.blow_up.closed_forms import rank_one_blow_up_time
from flowsim.blow_up.compression import compressed, is_thin
from flowsim.blow_up.derivatives import with_derivative
from flowsim.blow_up.krylov import in_krylov_spaces, is_large, unresolved
from flowsim.blow_up.packing import SCALARS, Count, Number, packed_scalars, unpacked
from flowsim.blow_up.reduced import solve
from flowsim.blow_up.reduction import smaller_garnier
from flowsim.blow_up.runge_kutta import solve_by_runge_kutta
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.blow_up.taylor import ROUNDING
from flowsim.blow_up.two_part import BITS
from flowsim.blow_up.verdict import NEVER, PROVED, Verdict

#: Bounds from Krylov spaces may be so far apart, relatively; else the whole weights are used.
BRACKET = 1e-13
#: Each solves a scaled Garnier system; a user chooses by name.
ENGINES = {"taylor": solve, "runge_kutta": solve_by_runge_kutta}


class BlowUp(eqx.Module):
    """When, in which direction, and how surely the leading-order flow blows up.

    Times belong to the unit-rate flow of the weights as given: T*(cθ) = T*(θ)/c; in training time
    they are divided by κ (weights as they are) or κ ε (weights divided by ε).
    """

    #: T*; infinity where there is no blow-up, or none that rounding lets through.
    time: Number
    #: lower ≤ T* ≤ upper.
    lower: Number
    upper: Number
    verdict: Verdict
    #: E = W_v W_1 W_2 at the start.
    energy: Number
    #: n and m of W_v ~ n/(T*−t), W_1 ~ n mᵀ/(T*−t), W_2 ~ m/(T*−t); zero where T* is infinite.
    value_direction: Float[Array, "... h"] | Float[np.ndarray, "... h"]
    hidden_direction: Float[Array, "... m"] | Float[np.ndarray, "... m"]
    #: Taylor steps; 0 for a closed form.
    steps: Count

    def __str__(self) -> str:
        return (
            f"blow-up {self.verdict}: T* = {self.time} in [{self.lower}, {self.upper}], "
            f"E = {self.energy}, {self.steps} steps"
        )


def blow_up_time(W_v: Any, W_1: Any, W_2: Any, *, engine: str = "taylor") -> BlowUp:
    """Blow-up time of the leading-order flow.

    ẇ = W_1 W_2, Ẇ_1 = w ⊗ W_2, Ẇ_2 = W_1ᵀ w with w = W_v at the start ([CL 7] along v;
    theory.md, sections 4 and 5), solved as the 2h-dimensional Garnier system by Taylor series.

    Args:
        W_v: value matrix seen along the condensation direction, (h,).
        W_1: first layer, (h, m).
        W_2: second layer, (m,).
        engine: "taylor", or "runge_kutta" for a second opinion: diffrax's Dormand–Prince 8 in
            desingularised time, to ten digits and more, its bounds an error estimate.
    Returns:
        T*, two bounds that contain it and a verdict, in the time of the weights as given. Under
        `jit` and `vmap` the same as data. `time` can be differentiated, in both modes
        (`with_derivative`); the rest carries no derivative.
    Raises:
        ValueError: shapes that do not chain, empty arrays, entries that are complex or not finite.
        RuntimeError: double precision is off.
    """
    checks.double_precision("blow_up_time")
    engine = checks.choice("engine", engine, ENGINES)
    weights = _checked(W_v, W_1, W_2)
    rows = weights[0].shape[0]
    if not checks.is_traced(weights):
        return _unpacked(_packed_on_the_host(weights, engine), rows)
    found = _unpacked(packed_blow_up(*jax.lax.stop_gradient(weights), engine), rows)
    return eqx.tree_at(lambda f: f.time, found, with_derivative(found.time, *weights))


def _packed_on_the_host(weights, engine):
    """By the Krylov spaces of large weights, unless these do not hold the solution well enough."""
    if engine == "taylor" and is_large(weights[1].shape):
        packed = np.asarray(_packed_by_krylov_spaces(*weights))
        time, lower, upper = packed[:3]
        if packed[-1] <= ROUNDING and upper - lower <= BRACKET * time:
            return packed[:-1]
    return np.asarray(packed_blow_up(*weights, engine))


def _unpacked(packed, rows):
    directions = packed[SCALARS : SCALARS + rows], packed[SCALARS + rows :]
    return unpacked(BlowUp, packed, value_direction=directions[0], hidden_direction=directions[1])


def _checked(W_v, W_1, W_2):
    W_v = checks.given_array("W_v", W_v, ndim=1)
    W_1 = checks.given_array("W_1", W_1, ndim=2)
    W_2 = checks.given_array("W_2", W_2, ndim=1)
    checks.same_size("W_v", W_v.shape[0], "W_1 (rows)", W_1.shape[0])
    checks.same_size("W_2", W_2.shape[0], "W_1 (columns)", W_1.shape[1])
    return tuple(a.astype(np.float64, copy=False) for a in (W_v, W_1, W_2))


@partial(jax.jit, static_argnames="engine")
def packed_blow_up(
    W_v: Float[Array, " h"],
    W_1: Float[Array, "h m"],
    W_2: Float[Array, " m"],
    engine: str = "taylor",
) -> Float[Array, " packed"]:
    """`blow_up_time` of checked float64 arrays in one vector: pure, one compilation a shape."""
    (W_v, W_1, W_2), exponent = _of_unit_size(W_v, W_1, W_2)
    if W_1.shape == (1, 1) and engine == "taylor":
        return _scalar(W_v, W_1, W_2, exponent)
    rest = _still(W_v, W_1, W_2), exponent, ENGINES[engine]
    if not is_thin(W_1.shape):
        return jnp.concatenate(_matrices(W_v, W_1, W_2, *rest))
    weights, value_of, hidden_of = compressed(W_v, W_1, W_2)
    scalars, value, hidden = _matrices(*weights, *rest, coarseness=2.0**BITS)
    return jnp.concatenate([scalars, value_of(value), hidden_of(hidden)])


@jax.jit
def _packed_by_krylov_spaces(W_v, W_1, W_2):
    """The same, and behind it how much of the solution the spaces do not hold."""
    weights, exponent = _of_unit_size(W_v, W_1, W_2)
    weights, value_of, hidden_of = in_krylov_spaces(*weights)
    scalars, value, hidden = _matrices(*weights, _still(*weights), exponent, solve, 2.0**BITS)
    beyond = jnp.where(jnp.isfinite(scalars[0]), unresolved(value, hidden), jnp.inf)
    return jnp.concatenate([scalars, value_of(value), hidden_of(hidden), beyond[None]])


def _of_unit_size(*weights):
    """Weights with a largest entry of about one, and the power of two that they were divided by."""
    exponent = binary_exponent(jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in weights])))
    return tuple(times_power_of_two(a, -exponent) for a in weights), exponent


def _matrices(W_v, W_1, W_2, still, exponent, solve, coarseness=1.0):
    """Packed scalars, n and m; the rounding of the weights is `coarseness` times 2^−BITS."""
    system, factor, exchanged = smaller_garnier(W_v, W_1, W_2)
    uncertainty = _start_uncertainty(system, W_1, factor[-1]) * coarseness
    scalars, rows = solve(system, uncertainty, still, exponent)
    partner = rows[1] @ factor
    size = jnp.sqrt(jnp.sum(partner * partner))
    vectors = jnp.stack([rows[0, :-1], partner / jnp.where(size > 0, size, 1.0)])
    value, hidden = jnp.where(exchanged, vectors[::-1], vectors)
    return scalars, value[: W_v.size], hidden[: W_2.size]


def _start_uncertainty(system, W_1, W_2):
    """Relative rounding of x = W_1 W_2 in two parts: large only where its terms cancel."""
    speed = jnp.sqrt(jnp.sum(system.velocity[0] ** 2))
    terms = jnp.sqrt(jnp.sum(W_1 * W_1)) * jnp.sqrt(jnp.sum(W_2 * W_2))
    return jnp.where(speed > 0, ROUNDING * 2.0**-BITS * terms / speed, 0.0)


def _still(W_v, W_1, W_2) -> Bool[Array, ""]:
    """Whether every product of the rate is zero term by term: an equilibrium, exactly."""
    w, first, second = W_v != 0, W_1 != 0, W_2 != 0
    moves_w = jnp.any(first & second)
    moves_first = jnp.any(w) & jnp.any(second)
    moves_second = jnp.any(first & w[:, None])
    return ~(moves_w | moves_first | moves_second)


def _scalar(W_v, W_1, W_2, exponent):
    """h = m = 1 in closed form; w ~ ±1/(T* − t) with the signs that the flow ends in."""
    numbers = jnp.stack([W_v[0], W_1[0, 0], W_2[0]])
    time = rank_one_blow_up_time(*numbers)
    finite = jnp.isfinite(time)
    n, _, m = jnp.where(finite, _final_signs(numbers), 0.0)
    slack = jnp.where(finite, ROUNDING * time, 0.0)
    times = jnp.stack([time, time - slack, time + slack])
    verdict = jnp.where(finite, PROVED, NEVER)
    scalars = packed_scalars(times, jnp.prod(numbers), verdict, jnp.zeros((), int), exponent)
    return jnp.concatenate([scalars, n[None], m[None]])


def _final_signs(numbers):
    """The number of smallest size takes the sign of the product of the other two."""
    signs = jnp.sign(numbers)
    smallest = jnp.arange(3) == jnp.argmin(jnp.abs(numbers))
    others = jnp.prod(jnp.where(smallest, 1.0, signs))
    return jnp.where(smallest, others, signs)

"""The gradient of T* with respect to the weights, by the adjoint equation along the flow.

The gradient (μ, ν) with respect to (q, q̇) obeys the adjoint of the linearised Garnier system,
μ̇ = −(∂q̈/∂q)ᵀ ν, ν̇ = −μ, so that ν solves the linearised equation itself, backwards from T*
(`near_pole`). The gradient with respect to A is −∫ (ν qᵀ + q νᵀ)/2 dt, that to D −∫ ν·q dt; the
weights follow by x = W_1 W_2, A = w wᵀ − W_1 W_1ᵀ, D = ‖w‖² − ‖W_2‖² (theory.md, section 4).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flowsim.blow_up.near_pole import before_pole, distance_to_pole
from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.blow_up.variation import (
    AHEAD,
    BACK,
    NODES_BACK,
    ORDER,
    REACH,
    WEIGHTS,
    Field,
    evaluated,
    solution_series,
    variation_series,
)

#: Taylor steps that are kept for the way back; a start that takes more has no gradient (NaN).
MOST_STEPS = 96
#: The last coefficients are those of a pole to this share.
AGREEMENT = 1e-13


class Way(NamedTuple):
    """Series at the states on the way to the pole, and the steps between them."""

    series: Float[Array, "states orders h"]
    steps: Float[Array, "states"]
    states: Int[Array, ""]  # how many series are filled
    distance: Float[Array, ""]  # T* − t at the newest state
    mismatch: Float[Array, ""]


class Gradient(NamedTuple):
    """Of T* with respect to q, q̇, A and D."""

    position: Float[Array, " h"]
    velocity: Float[Array, " h"]
    curvature: Float[Array, "h h"]
    shift: Float[Array, ""]


@jax.custom_jvp
def with_derivative(
    time: Float[Array, ""],
    W_v: Float[Array, " h"],
    W_1: Float[Array, "h m"],
    W_2: Float[Array, " m"],
) -> Float[Array, ""]:
    """T* as it is, with its derivative with respect to the weights in both modes.

    The gradient satisfies ∇E·∇T* = −1 and θ·∇T* = −T*; it is NaN where T* is infinite.
    """
    return time


@with_derivative.defjvp
def _with_derivative_jvp(primals, tangents):
    time, *weights = primals
    gradient = weight_gradient(*weights)
    found = jnp.isfinite(time)
    terms = [
        jnp.sum(jnp.where(found, g, jnp.nan) * dot)
        for g, dot in zip(gradient, tangents[1:], strict=True)
    ]
    return time, sum(terms)


@jax.jit
def weight_gradient(
    W_v: Float[Array, " h"], W_1: Float[Array, "h m"], W_2: Float[Array, " m"]
) -> tuple[Float[Array, " h"], Float[Array, "h m"], Float[Array, " m"]]:
    """∇T* for weights as given: of the w-system if D ≤ 0, else of the W_2-system."""
    h, m = W_1.shape
    size = max(h, m)
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)) for a in (W_v, W_1, W_2)]))
    exponent = binary_exponent(largest)
    w, first, second = (times_power_of_two(a, -exponent) for a in (W_v, W_1, W_2))
    w, second = jnp.pad(w, (0, size - h)), jnp.pad(second, (0, size - m))
    first = jnp.pad(first, [(0, size - h), (0, size - m)])
    exchanged = w @ w > second @ second
    swap = lambda a, b: (jnp.where(exchanged, b, a), jnp.where(exchanged, a, b))  # noqa: E731
    w, second = swap(w, second)
    first = jnp.where(exchanged, first.T, first)
    of_w, of_first, of_second = _chained(w, first, second)
    of_w, of_second = swap(of_w, of_second)
    of_first = jnp.where(exchanged, of_first.T, of_first)
    cut = of_w[:h], of_first[:h, :m], of_second[:m]
    of_w, of_first, of_second = (times_power_of_two(a, -2 * exponent) for a in cut)
    return of_w, of_first, of_second


def _chained(w, first, second):
    """From the gradient of the w-system to that of its weights."""
    field = Field(jnp.outer(w, w) - first @ first.T, w @ w - second @ second)
    g = system_gradient(field, w, first @ second)
    of_w = g.position + 2 * (g.curvature @ w + g.shift * w)
    of_first = jnp.outer(g.velocity, second) - 2 * g.curvature @ first
    return of_w, of_first, first.T @ g.velocity - 2 * g.shift * second


def system_gradient(field: Field, q: Float[Array, " h"], p: Float[Array, " h"]) -> Gradient:
    """∇T* of q̈ = (2‖q‖² − D) q − A q from (q, p)."""
    way = _to_the_pole(field, q, p)
    last = way.series[way.states - 1]
    end = before_pole(field, last, way.distance)
    of_curvature = -_symmetric(end.gradients * end.weights[:, None], end.states)
    of_shift = -jnp.sum(end.weights * jnp.sum(end.gradients * end.states, axis=1))

    def back(carry):
        i, value, slope, of_curvature, of_shift = carry
        step = way.steps[i - 1]
        nu = variation_series(field, way.series[i], value, slope)
        weighted = evaluated(nu, step, NODES_BACK) * (WEIGHTS[:, None] / 2 * step)
        states = evaluated(way.series[i], step, NODES_BACK)
        value, slope = evaluated(nu, step, BACK)
        return (
            i - 1,
            value,
            slope / step,
            of_curvature - _symmetric(weighted, states),
            of_shift - jnp.sum(weighted * states),
        )

    carry = way.states - 1, end.value, end.slope, of_curvature, of_shift
    _, value, slope, of_curvature, of_shift = jax.lax.while_loop(lambda c: c[0] > 0, back, carry)
    found = way.mismatch <= AGREEMENT
    parts = -slope, value, of_curvature, of_shift
    return Gradient(*(jnp.where(found, part, jnp.nan) for part in parts))


def _symmetric(first, second):
    product = first.T @ second
    return (product + product.T) / 2


def _to_the_pole(field, q, p) -> Way:
    """Taylor steps from (q, p) until the last coefficients are those of the pole."""

    def step(carry):
        way, q, p = carry
        a = solution_series(field, q, p)
        distance, mismatch = distance_to_pole(a)
        ahead = (distance > 0) & (q @ p > 0)
        length = REACH * _radius(a)
        way = Way(
            series=way.series.at[way.states].set(a),
            steps=way.steps.at[way.states].set(length),
            states=way.states + 1,
            distance=distance,
            mismatch=jnp.where(ahead, mismatch, jnp.inf),
        )
        q, p = evaluated(a, length, AHEAD)
        return way, q, p / length

    def going(carry):
        way = carry[0]
        return ~(way.mismatch <= AGREEMENT) & (way.states < MOST_STEPS)

    start = Way(
        series=jnp.zeros((MOST_STEPS, ORDER + 1, q.size)),
        steps=jnp.zeros(MOST_STEPS),
        states=jnp.zeros((), int),
        distance=jnp.inf * jnp.ones(()),
        mismatch=jnp.inf * jnp.ones(()),
    )
    return jax.lax.while_loop(going, step, (start, q, p))[0]


def _radius(a):
    """Root test on the last two coefficients; where a_0 is small a_1 gives the scale."""
    sizes = jnp.max(jnp.abs(a), axis=1)
    last, orders = sizes[ORDER - 1 :], jnp.asarray([ORDER - 1.0, float(ORDER)])
    by_velocity = jnp.min((sizes[1] / last) ** (1 / (orders - 1)))
    scale = jnp.maximum(sizes[0], jnp.where(sizes[1] > 0, sizes[1] * by_velocity, 0.0))
    return jnp.min((scale / last) ** (1 / orders))

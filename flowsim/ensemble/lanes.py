"""Many chains through a few lanes: a lane whose member has blown up takes the next one.

Members need 3 to 8 Taylor steps. In a plain batch all wait for the slowest; here no lane does.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from flowsim.blow_up.scaling import binary_exponent, times_power_of_two
from flowsim.ensemble.chain import Chain
from flowsim.ensemble.series import ORDER, taylor_coefficients

#: A step is the radius of convergence times REACH: the remainder is 3e-17.
REACH = 3e-17 ** (1 / ORDER)
#: T* is accepted where it is known to this share of itself. Ratios of coefficients converge by the
#: factor (T* − t)/(distance of the next singularity), which is never taken for less than FASTEST.
AGREEMENT, FASTEST = 5e-16, 0.1
#: Relative rounding of one evaluation.
ROUNDING = 8 * np.finfo(np.float64).eps
#: A member whose state is known worse than this is not believed here.
LOST = 2e-14
MAX_STEPS = 200


class Times(eqx.Module):
    """T* of members, infinite where it is not `found`; E at the start; what it took."""

    time: Float[Array, " members"]
    found: Bool[Array, " members"]
    energy: Float[Array, " members"]
    steps: Int[Array, " members"]
    uncertainty: Float[Array, " members"]


class Lanes(eqx.Module):
    """What the lanes hold; `member` is the number of members in a lane without one."""

    member: Int[Array, " lanes"]
    chain: Chain
    time: Float[Array, " lanes"]
    steps: Int[Array, " lanes"]
    energy: Float[Array, " lanes"]
    level: Float[Array, " lanes"]  # H at the start
    largest: Float[Array, " lanes"]  # of the size of H's terms, so far
    uncertainty: Float[Array, " lanes"]


class Reading(eqx.Module):
    """What one set of coefficients says."""

    distance: Float[Array, " lanes"]  # T* − t, if it is to be believed
    error: Float[Array, " lanes"]
    radius: Float[Array, " lanes"]
    energy: Float[Array, " lanes"]
    level: Float[Array, " lanes"]
    size: Float[Array, " lanes"]


def blow_up_times(chains: Chain, stop: Int[Array, ""], lanes: int) -> Times:
    """T* of the members 0, …, stop − 1 of `chains`, so many at a time; the others are left out.

    Pure and traceable. A member's arithmetic does not depend on its lane or its neighbours.
    """
    members = chains.shift.shape[0]
    chains, exponent = unit_size(chains)
    empty = Times(
        time=jnp.full(members, jnp.inf),
        found=jnp.zeros(members, bool),
        energy=jnp.zeros(members),
        steps=jnp.zeros(members, jnp.int32),
        uncertainty=jnp.zeros(members),
    )
    first = jnp.arange(lanes, dtype=jnp.int32)
    stop = jnp.minimum(stop, members).astype(jnp.int32)
    first = jnp.where(first < stop, first, members)
    start = (_loaded(chains, first), jnp.asarray(lanes, jnp.int32), empty)

    def advance(carry):
        return _advance(chains, stop, *carry)

    running = jax.lax.while_loop(lambda c: jnp.any(c[0].member < members), advance, start)
    return _in_original_units(running[2], exponent)


def unit_size(chains: Chain) -> tuple[Chain, Int[Array, " members"]]:
    """Every member times a power of two so that its numbers are of about unit size."""

    def scaled(chain):
        roots = [chain.velocity, chain.diagonal, chain.coupling, chain.shift]
        sizes = [jnp.sqrt(jnp.max(jnp.abs(x))) for x in roots]
        sizes += [jnp.max(jnp.abs(x)) for x in (chain.position, chain.border)]
        exponent = binary_exponent(jnp.max(jnp.stack(sizes)))
        return Chain(
            position=times_power_of_two(chain.position, -exponent),
            velocity=times_power_of_two(chain.velocity, -2 * exponent),
            border=times_power_of_two(chain.border, -exponent),
            diagonal=times_power_of_two(chain.diagonal, -2 * exponent),
            coupling=times_power_of_two(chain.coupling, -2 * exponent),
            shift=times_power_of_two(chain.shift, -2 * exponent),
        ), exponent

    return jax.vmap(scaled)(chains)


def _in_original_units(times: Times, exponent: Array) -> Times:
    rescale = jax.vmap(times_power_of_two)
    new = rescale(times.time, -exponent), rescale(times.energy, 3 * exponent)
    return eqx.tree_at(lambda t: (t.time, t.energy), times, new)


def _loaded(chains: Chain, member: Int[Array, " lanes"]) -> Lanes:
    """Lanes at the start of these members."""
    chain = jax.tree.map(lambda x: jnp.take(x, member, axis=0, mode="clip"), chains)
    zero = jnp.zeros(member.shape)
    return Lanes(
        member=member,
        chain=chain,
        time=zero,
        steps=jnp.zeros(member.shape, jnp.int32),
        energy=zero,
        level=zero,
        largest=zero,
        uncertainty=zero,
    )


def _advance(chains: Chain, stop: Array, lanes: Lanes, next_member: Array, times: Times):
    """One Taylor step of every lane; results are written and lanes filled again."""
    coefficients, squares = taylor_coefficients(lanes.chain)
    reading = _read(coefficients, squares)
    lanes = _watched(lanes, reading)
    estimate = lanes.time + reading.distance
    arrived = _believable(reading) & (reading.error <= AGREEMENT * estimate)
    lost = ~(lanes.uncertainty < LOST) | (lanes.steps >= MAX_STEPS)
    done = arrived | lost
    times = _written(times, lanes, jnp.where(arrived & ~lost, estimate, jnp.inf), done)
    lanes = _stepped(lanes, coefficients, REACH * reading.radius)

    def filled(lanes, next_member):
        place = next_member + jnp.cumsum(done.astype(jnp.int32)) - 1
        member = jnp.where(place < stop, place, chains.shift.shape[0])
        fresh = _loaded(chains, member)

        def chosen(new, old):
            return jnp.where(done.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return jax.tree.map(chosen, fresh, lanes), next_member + jnp.sum(done, dtype=jnp.int32)

    lanes, next_member = jax.lax.cond(
        jnp.any(done), filled, lambda lanes, n: (lanes, n), lanes, next_member
    )
    return lanes, next_member, times


def _read(a: Float[Array, "lanes orders h"], squares: Float[Array, "lanes 2"]) -> Reading:
    """Distance to the pole, radius of convergence and H.

    τ = (u·a_{N−1})/(u·a_N), u along a_N; the ratios before and ‖a_N‖ τ^{N+1} = 1 show its error
    (theory.md, section 5). H = ½‖q̇‖² + ½‖q‖⁴ − q·a_2.
    """
    last = a[:, ORDER - 3 :]
    size = jnp.max(jnp.abs(last[:, -1]), axis=1)
    last = last / size[:, None, None]
    along = jnp.einsum("ljh,lh->lj", last, last[:, -1])
    ratios = along[:, :-1] / along[:, 1:]
    distance = ratios[:, -1]
    mismatch = jnp.abs(size * jnp.sqrt(along[:, -1]) * distance ** (ORDER + 1) - 1) / (ORDER + 1)
    before, change = jnp.abs(ratios[:, 1:] - ratios[:, :-1]).T
    factor = jnp.where(before > 0, change / jnp.where(before > 0, before, 1.0), 1.0)
    spread = change * jnp.maximum(factor, FASTEST)
    kinetic = jnp.sum(a[:, 1] * a[:, 1], axis=1)
    bent = jnp.sum(a[:, 0] * a[:, 2], axis=1)
    u = squares[:, 0]
    return Reading(
        distance=distance,
        error=spread + mismatch * jnp.abs(distance),
        radius=_radius(u, kinetic, a[:, ORDER - 1 :]),
        energy=squares[:, 1] / 2,
        level=0.5 * (kinetic + u * u) - bent,
        size=0.5 * (kinetic + u * u) + jnp.abs(bent),
    )


def _radius(u: Array, kinetic: Array, last: Float[Array, "lanes 2 h"]) -> Float[Array, " lanes"]:
    """Root test on the last two coefficients; where a_0 is small a_1 gives the scale."""
    sizes = jnp.sqrt(jnp.sum(last * last, axis=2))
    orders = jnp.asarray([ORDER - 1.0, float(ORDER)])
    position, speed = jnp.sqrt(u), jnp.sqrt(kinetic)
    by_velocity = jnp.min((speed[:, None] / sizes) ** (1 / (orders - 1)), axis=1)
    scale = jnp.maximum(position, jnp.where(speed > 0, speed * by_velocity, 0.0))
    return jnp.min((scale[:, None] / sizes) ** (1 / orders), axis=1)


def _watched(lanes: Lanes, reading: Reading) -> Lanes:
    """Uncertainty of the state from H: its drift, and rounding of terms that have shrunk since."""
    fresh = lanes.steps == 0
    level = jnp.where(fresh, reading.level, lanes.level)
    largest = jnp.maximum(lanes.largest, reading.size)
    drift = jnp.abs(reading.level - level) - ROUNDING * (reading.size + jnp.abs(level))
    worst = (ROUNDING * largest / 8 + jnp.maximum(drift, 0.0)) / reading.size
    return eqx.tree_at(
        lambda x: (x.energy, x.level, x.largest, x.uncertainty),
        lanes,
        (
            jnp.where(fresh, reading.energy, lanes.energy),
            level,
            largest,
            jnp.maximum(lanes.uncertainty, worst),
        ),
    )


def _believable(reading: Reading) -> Bool[Array, " lanes"]:
    """Ahead of t, with E > 0 and T* − t ≤ E^{−1/3} [CL 11]."""
    bound = reading.energy * reading.distance**3
    return (reading.distance > 0) & (reading.energy > 0) & (bound <= 1 + 1e-9)


def _written(times: Times, lanes: Lanes, time: Array, done: Array) -> Times:
    """The results of the lanes that are done, at their members' places."""
    place = jnp.where(done, lanes.member, times.time.size)
    new = Times(time, jnp.isfinite(time), lanes.energy, lanes.steps + 1, lanes.uncertainty)
    return jax.tree.map(lambda old, value: old.at[place].set(value, mode="drop"), times, new)


def _stepped(lanes: Lanes, a: Float[Array, "lanes orders h"], step: Array) -> Lanes:
    """q and q̇ at t + step, summed from the smallest term."""
    orders = jnp.arange(ORDER + 1.0)
    powers = step[:, None] ** orders
    slopes = jnp.pad(powers[:, :-1], ((0, 0), (1, 0))) * orders
    moved = jnp.einsum("lpj,ljh->lph", jnp.stack([powers, slopes], axis=1), a)
    return eqx.tree_at(
        lambda x: (x.chain.position, x.chain.velocity, x.time, x.steps),
        lanes,
        (moved[:, 0], moved[:, 1], lanes.time + step, lanes.steps + 1),
    )

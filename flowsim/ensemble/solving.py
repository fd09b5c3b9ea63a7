"""Members on all devices of this process."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from flowsim.blow_up import blow_up_time, reduced_blow_up_time
from flowsim.blow_up.verdict import PROVED, UNDECIDED
from flowsim.ensemble.chain import dense
from flowsim.ensemble.gaussian import block_size, gaussian_block, gaussian_chains
from flowsim.ensemble.lanes import Times, blow_up_times
from flowsim.ensemble.members import Members

AXIS = "members"
#: A member that the lanes give up is solved again in two-part arithmetic up to this width.
LARGEST_DENSE = 1024


def chain_members(
    key: Array, first: int, stop: int, room: int, sizes: tuple[int, int], lanes: int
) -> Members:
    """The Gaussian members first, …, stop − 1; `first` is a multiple of the block size.

    Each local device solves its own part; nothing is exchanged, so no device waits before the end.
    One program is compiled for each `room` ≥ stop − first.
    """
    devices = jax.local_devices()
    block = block_size(*sizes)
    part = -(-room // (len(devices) * block)) * block
    bounds = jnp.asarray([first, stop])
    found = jax.device_get(_on_devices(key, bounds, sizes, part, lanes, tuple(devices)))
    found = jax.tree.map(lambda x: x[: stop - first], found)
    members = Members(
        time=found.time,
        lower=np.where(found.found, found.time, 0.0),
        verdict=np.where(found.found, PROVED, UNDECIDED).astype(np.int8),
        energy=found.energy,
        steps=found.steps,
    )
    return _second_opinions(key, first, sizes, members)


@partial(jax.jit, static_argnames=("sizes", "part", "lanes", "devices"))
def _on_devices(key, bounds, sizes, part, lanes, devices) -> Times:
    """The times of `part` members a device, those before bounds[1]."""
    mesh = Mesh(np.asarray(devices), (AXIS,))

    def solve(key, bounds):
        here = bounds[0] + part * jax.lax.axis_index(AXIS).astype(bounds.dtype)
        chains = gaussian_chains(key, here, part, *sizes)
        return blow_up_times(chains, jnp.clip(bounds[1] - here, 0, part), min(lanes, part))

    nothing, split = PartitionSpec(), PartitionSpec(AXIS)
    return jax.shard_map(
        solve, mesh=mesh, in_specs=(nothing, nothing), out_specs=split, check_vma=False
    )(key, bounds)


def _second_opinions(key: Array, first: int, sizes: tuple[int, int], members: Members) -> Members:
    """The members that the lanes gave up, in two-part arithmetic."""
    if max(sizes) > LARGEST_DENSE:
        return members
    columns = tuple(np.array(x) for x in jax.tree.leaves(members))
    members = jax.tree.unflatten(jax.tree.structure(members), columns)
    for place in np.flatnonzero(members.verdict == UNDECIDED):
        found = reduced_blow_up_time(*_dense_member(key, jnp.asarray(first + place), *sizes))
        members.time[place] = found.time
        members.lower[place] = found.time if found.verdict == "proved" else found.lower
        members.verdict[place] = found.verdict.code
        members.steps[place] = found.steps
    return members


@partial(jax.jit, static_argnums=(2, 3))
def _dense_member(key, i, h, m):
    size = block_size(h, m)
    chain = jax.tree.map(lambda x: x[i % size], gaussian_block(key, i // size, h, m))
    system = dense(chain)
    return system.position[0], system.velocity[0], system.curvature[0], system.shift


def matrix_members(starts: Iterable[tuple[Any, Any, Any]]) -> Members:
    """Members from their weights, one by one, by `blow_up_time`."""
    found = [blow_up_time(*weights) for weights in starts]
    verdict = np.asarray([member.verdict.code for member in found], np.int8)
    time = np.asarray([member.time for member in found], np.float64)
    lower = np.asarray([member.lower for member in found], np.float64)
    return Members(
        time=time,
        lower=np.where(verdict == PROVED, time, lower),
        verdict=verdict,
        energy=np.asarray([member.energy for member in found], np.float64),
        steps=np.asarray([member.steps for member in found], np.int32),
    )

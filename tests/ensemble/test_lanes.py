"""Blow-up times in lanes, against the engine of `blow_up_time` and against SciPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from flowsim.blow_up import reduced_blow_up_time
from flowsim.ensemble import mean_field_limit
from flowsim.ensemble.cache import lanes_for, second_level_bytes
from flowsim.ensemble.chain import Chain, bidiagonal_chain, dense
from flowsim.ensemble.gaussian import gaussian_chains
from flowsim.ensemble.lanes import blow_up_times
from flowsim.ensemble.series import ORDER, taylor_coefficients

MEMBERS = 512
solve = jax.jit(blow_up_times, static_argnums=2)


@functools.cache
def chains():
    return gaussian_chains(jax.random.key(0), jnp.asarray(0), MEMBERS, 8, 8)


def taken(tree, index):
    return jax.tree.map(lambda x: x[index], tree)


def test_coefficients_obey_the_recursion_written_out():
    few = taken(chains(), slice(0, 2))
    a, squares = (np.asarray(x) for x in jax.jit(taylor_coefficients)(few))
    for member in range(2):
        system = dense(taken(few, member))
        A = np.asarray(system.curvature[0]) + float(system.shift) * np.eye(8)
        b, s = [np.asarray(x[0]) for x in (system.position, system.velocity)], []
        for k in range(ORDER - 1):
            s.append(sum(b[j] @ b[k - j] for j in range(k + 1)))
            cubic = 2 * sum(s[j] * b[k - j] for j in range(k + 1))
            b.append((cubic - A @ b[k]) / ((k + 1) * (k + 2)))
        np.testing.assert_allclose(squares[member], s[:2], rtol=1e-14)
        for k in range(ORDER + 1):
            np.testing.assert_allclose(a[member, k], b[k], rtol=0, atol=1e-13 * np.abs(b[k]).max())


def test_times_are_those_of_the_two_part_engine():
    found = solve(chains(), jnp.asarray(MEMBERS), 16)
    assert bool(np.all(found.found))
    for i in range(0, MEMBERS, 4):
        system = dense(taken(chains(), i))
        rows = system.position[0], system.velocity[0], system.curvature[0]
        exact = reduced_blow_up_time(*rows, system.shift)
        assert float(found.time[i]) == pytest.approx(float(exact.time), rel=1e-14, abs=0)
        assert float(found.energy[i]) == pytest.approx(float(exact.energy), rel=1e-12, abs=1e-12)


def test_times_are_those_of_scipy():
    i = 3
    system = dense(taken(chains(), i))
    A, D = np.asarray(system.curvature[0]), float(system.shift)

    def rate(s, y):  # dt = ds/√(1 + ‖q‖²)
        q, p = y[:8], y[8:16]
        fast = (2 * q @ q - D) * q - A @ q
        return np.concatenate([p, fast, [1.0]]) / np.sqrt(1 + q @ q)

    start = np.concatenate([system.position[0], system.velocity[0], [0.0]])
    end = solve_ivp(rate, (0, 25), start, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    q, p = end[:8], end[8:16]
    time = end[16] + (q @ q) / (q @ p)
    found = solve(chains(), jnp.asarray(MEMBERS), 16)
    assert float(found.time[i]) == pytest.approx(time, rel=1e-9)


def test_times_do_not_depend_on_the_neighbours_and_little_on_the_number_of_lanes():
    straight = solve(chains(), jnp.asarray(MEMBERS), 16).time
    order = np.random.default_rng(0).permutation(MEMBERS)
    shuffled = solve(taken(chains(), order), jnp.asarray(MEMBERS), 16).time
    np.testing.assert_array_equal(np.asarray(straight)[order], shuffled)
    other = solve(chains(), jnp.asarray(MEMBERS), 5).time
    np.testing.assert_allclose(other, straight, rtol=8 * np.finfo(float).eps)


def test_members_beyond_the_stop_are_left_out():
    found = solve(chains(), jnp.asarray(7), 16)
    assert bool(np.all(found.found[:7]))
    assert not np.any(found.found[7:])
    assert not np.any(found.steps[7:])


def test_scaling_by_powers_of_two_is_exact():
    c = 2.0**-300
    scaled = Chain(
        position=chains().position * c,
        velocity=chains().velocity * c**2,
        border=chains().border * c,
        diagonal=chains().diagonal * c**2,
        coupling=chains().coupling * c**2,
        shift=chains().shift * c**2,
    )
    straight = solve(chains(), jnp.asarray(MEMBERS), 16).time
    np.testing.assert_array_equal(
        solve(scaled, jnp.asarray(MEMBERS), 16).time, np.asarray(straight) / c
    )


def test_an_equilibrium_and_a_degenerate_start_are_not_found():
    zero, one = jnp.zeros(8), jnp.zeros(8).at[0].set(1.0)
    still = bidiagonal_chain(zero, zero, zero, jnp.asarray(0.0))
    separatrix = bidiagonal_chain(one, one, zero, jnp.asarray(-1.0))  # w = W_1 = −W_2
    both = jax.tree.map(lambda a, b: jnp.stack([a, b] * (MEMBERS // 2)), still, separatrix)
    found = solve(both, jnp.asarray(2), 16)
    assert not np.any(found.found[:2])
    assert np.all(np.isinf(found.time[:2]))


def test_the_mean_field_limit_has_converged_to_the_figure_of_the_theory():
    assert mean_field_limit(10) == pytest.approx(1.1679727710723, rel=3e-14)
    assert mean_field_limit(40) == pytest.approx(mean_field_limit(20), rel=1e-14)


def test_lanes_fill_the_cache_and_no_more(tmp_path):
    assert lanes_for(64, 2**19) == 8
    assert lanes_for(8, 2**19) == 64
    assert lanes_for(10**6, 2**19) == 1
    assert second_level_bytes(tmp_path) == 2**19
    place = tmp_path / "index2"
    place.mkdir()
    for name, text in (("level", "2"), ("type", "Unified"), ("size", "2M")):
        (place / name).write_text(text + "\n")
    assert second_level_bytes(tmp_path) == 2**21

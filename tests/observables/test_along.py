"""Observables along a run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim.observables as obs
from flowsim.network import gaussian_parameters
from flowsim.outcome import Outcome
from flowsim.trajectory import Trajectory


def run(times=7):
    keys = jax.random.split(jax.random.key(0), times)
    states = jax.vmap(lambda key: gaussian_parameters(key, 3, scale=1e-2))(keys)
    doubled = jax.tree.map(lambda W: 2 * W, states)
    return Trajectory(np.arange(times), states, Outcome.of("reached_end"), rates=doubled)


@pytest.mark.parametrize("chunk", [3, 100])
def test_chunks_do_not_show(chunk):
    trajectory = run()
    found = obs.along(trajectory, obs.norms, chunk=chunk)
    for name, values in found.items():
        assert isinstance(values, np.ndarray)
        W = np.asarray(getattr(trajectory.states, name)).reshape(7, -1)
        np.testing.assert_allclose(values, np.linalg.norm(W, axis=1), rtol=1e-14)


def test_states_loaded_as_numpy_are_taken():
    trajectory = run()
    as_numpy = jax.tree.map(np.asarray, trajectory.states)
    loaded = Trajectory(trajectory.times, as_numpy, trajectory.outcome)
    ranks = obs.along(loaded, obs.effective_ranks)
    exact = [obs.effective_rank(W) for W in trajectory.states.W_Q]
    np.testing.assert_allclose(ranks["W_Q"], exact, rtol=1e-12)


def test_rows_that_are_padding_are_dropped():
    padded = eqx.tree_at(lambda r: r.count, run(), 4, is_leaf=lambda x: x is None)
    assert obs.along(padded, obs.norms)["W_Q"].shape == (4,)


def test_with_rates_passes_state_and_rate():
    found = obs.along(run(), obs.relative_rates, with_rates=True)
    assert set(found) == {"W_Q", "W_K", "W_V", "W_1", "W_2"}
    np.testing.assert_allclose(list(found.values()), 2.0, rtol=1e-14)


def test_rates_that_were_not_saved_are_named():
    trajectory = eqx.tree_at(lambda r: r.rates, run(), None)
    with pytest.raises(ValueError, match=r"trajectory\.rates must be saved"):
        obs.along(trajectory, obs.relative_rates, with_rates=True)


def test_one_compilation_serves_new_data_and_lengths():
    traces = []

    def observable(direction, theta):
        traces.append(1)
        return obs.condensation_rate(theta.W_V, direction)

    for times, direction in [(7, [1.0, 0.0, 0.0]), (7, [0.0, 0.6, 0.8]), (10, [0.0, 1.0, 0.0])]:
        values = obs.along(run(times), eqx.Partial(observable, jnp.array(direction)), chunk=3)
        assert values.shape == (times,)
    assert len(traces) == 1

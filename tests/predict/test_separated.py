"""The separated prediction: F of the condensed network, its path, agreement to the onset."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import Condensed, CondensedState, key_query_matrix
from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.predict import predict
from flowsim.predict.forcing import CubicPath, condensed_key_query_matrix
from flowsim.predict.manifold import beta
from flowsim.tasks import Task, gaussian


@pytest.fixture(scope="module")
def task() -> Task:
    return gaussian(60, 4, 4)


@pytest.fixture(scope="module")
def state() -> CondensedState:
    rng = np.random.default_rng(3)
    shapes = (4,), (6,), (6,), (4, 3), (4, 3)
    return CondensedState(*(jnp.asarray(0.8 * rng.normal(size=shape)) for shape in shapes))


def test_for_a_linear_activation_F_is_that_of_the_paper(task, state):
    net = OneLayerTransformer("gelu", "logistic").linearised()
    found = condensed_key_query_matrix(net, task, state, 3)
    expected = key_query_matrix(net, task, beta(state), key_width=3)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_F_gives_the_rates_of_small_keys_and_queries(task, state):
    net = OneLayerTransformer("gelu", "logistic")
    small = CondensedState(state.p, state.q, state.r, 1e-5 * state.W_Q, 1e-5 * state.W_K)
    rate = Condensed(net, task).rate(0.0, small)
    F = condensed_key_query_matrix(net, task, state, 3)
    np.testing.assert_allclose(F @ small.W_K, rate.W_Q, rtol=1e-7, atol=1e-13)
    np.testing.assert_allclose(F.T @ small.W_Q, rate.W_K, rtol=1e-7, atol=1e-13)


def test_a_cubic_path_repeats_cubics_and_stands_still_outside():
    times = np.array([0.0, 0.3, 1.0, 1.2, 2.0])
    cubic = lambda t: np.stack([t**3 - t, 2 * t**2], axis=-1)  # noqa: E731
    path = CubicPath(times, cubic(times))
    for t in (0.1, 0.3, 0.77, 1.9):
        np.testing.assert_allclose(path(t), cubic(np.asarray(t)), atol=1e-13)
    np.testing.assert_allclose(path(-1.0), cubic(np.asarray(0.0)), atol=1e-13)
    np.testing.assert_allclose(path(5.0), cubic(np.asarray(2.0)), atol=1e-13)


@pytest.mark.parametrize("scale", [1e-3])
def test_it_agrees_with_the_whole_prediction_up_to_the_onset(task, scale):
    net = OneLayerTransformer("tanh", "logistic")
    theta0 = gaussian_parameters(jax.random.key(2), 4, scale=scale)
    whole, separated = (predict(net, task, theta0, separated=s) for s in (False, True))
    t = whole.onset.time
    assert separated.onset.time == pytest.approx(t, abs=3e-3 * abs(t - whole.blow_up.time))
    first, second = (x.trajectory.evaluate(t) for x in (separated, whole))
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        a, b = getattr(first, name), getattr(second, name)
        assert float(jnp.linalg.norm(a - b)) < 2e-3 * float(jnp.linalg.norm(b)), name
    end = separated.trajectory.final
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(end))

"""The separated prediction: F of the condensed network, its path, agreement to the onset."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.blow_up import blow_up_time
from flowsim.flows import Condensed, CondensedState, Full, KeyQuery, key_query_matrix
from flowsim.flows.leading_order import outer
from flowsim.integrate import integrate
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.predict import key_query_path, predict
from flowsim.predict.forcing import CubicPath, condensed_key_query_matrix
from flowsim.predict.manifold import beta
from flowsim.tasks import Task, gaussian

WIDTHS = {"key_width": 3, "value_width": 5, "hidden_width": 6}


def start(scale: float) -> Parameters:
    return gaussian_parameters(jax.random.key(2), 4, scale=scale, **WIDTHS)


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


def test_F_along_a_run_drives_its_keys_and_queries(task):
    """The linearised model with first-order attention, simulated almost to T: W_Q and W_K follow
    the linear flow with F(β(t)) up to the square of the scores."""
    net = OneLayerTransformer("tanh", "logistic", "first_order").linearised()
    theta0 = gaussian_parameters(jax.random.key(2), 4, scale=1e-3)
    unit_rate = blow_up_time(*outer(theta0, net.direction(task)))
    run = integrate(Full(net, task), theta0, (unit_rate.time - 0.5) / net.kappa(task))
    flow = KeyQuery(key_query_path(net, task, run))
    W_Q, W_K = integrate(flow, (theta0.W_Q, theta0.W_K), run.times[-1]).final
    assert float(jnp.linalg.norm(W_Q)) > 3 * float(jnp.linalg.norm(theta0.W_Q))
    np.testing.assert_allclose(W_Q, run.final.W_Q, atol=1e-3 * float(jnp.abs(W_Q).max()))
    np.testing.assert_allclose(W_K, run.final.W_K, atol=1e-3 * float(jnp.abs(W_K).max()))


def test_it_agrees_with_the_whole_prediction_up_to_the_onset(task):
    net, theta0 = OneLayerTransformer("tanh", "logistic"), start(1e-3)
    whole, separated = (predict(net, task, theta0, separated=s) for s in (False, True))
    t = whole.onset.time
    assert separated.onset.time == pytest.approx(t, abs=3e-3 * abs(t - whole.blow_up.time))
    first, second = (x.trajectory.evaluate(t) for x in (separated, whole))
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        a, b = getattr(first, name), getattr(second, name)
        assert float(jnp.linalg.norm(a - b)) < 2e-3 * float(jnp.linalg.norm(b)), name
    end = separated.trajectory.final
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(end))

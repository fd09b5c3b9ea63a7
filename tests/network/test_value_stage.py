"""The first stage with residuals, against gradients, the gradient flow and steps of AdamW."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.descent import minimise
from flowsim.flows import Full
from flowsim.integrate import integrate
from flowsim.network.decoder import Decoder, gaussian_layers, signal, signal_matrix
from flowsim.network.value_stage import attention_matrix, following_rates, value_stage
from flowsim.tasks import Sequences

V, D, S, N = 7, 4, 5, 12


@pytest.fixture(scope="module")
def data():
    key = jax.random.key(3)
    tokens = jax.random.randint(key, (N, S), 0, V)
    return Sequences(tokens, jax.random.randint(jax.random.fold_in(key, 1), (N,), 0, V), V)


def decoder(**options):
    options = {"activation": "gelu", "residual": True} | options
    return Decoder(V, D, key=jax.random.key(0), dtype=jnp.float64, **options)


def weights(scale, layers=2):
    return gaussian_layers(
        jax.random.key(1), D, scale=scale, hidden_width=3, layers=layers, dtype=jnp.float64
    )


def gradient(net, data):
    return eqx.filter_jit(jax.grad(lambda theta: net.loss(theta, data)))


@pytest.mark.parametrize("heads", [1, 2])
def test_every_value_matrix_sets_out_along_the_signal(data, heads):
    net = decoder(heads=heads)
    slope = gradient(net, data)(jax.tree.map(jnp.zeros_like, weights(1.0)))
    for layer in slope:
        np.testing.assert_allclose(-layer.W_V, signal_matrix(net, data), atol=1e-15)
        for name in ("W_Q", "W_K", "W_1", "W_2"):
            assert not np.any(np.asarray(getattr(layer, name)))


@pytest.fixture(scope="module")
def followed(data):
    """(ε, start, flow, prediction) at the time 2 ε/‖M‖, for two scales."""
    net = decoder()
    size = float(jnp.linalg.norm(signal_matrix(net, data)))
    found = []
    for scale in (3e-3, 1e-3):
        theta0, t1 = weights(scale), 2 * D * scale / size
        flow = integrate(Full(net, data), theta0, t1, times=[t1], rtol=1e-11)
        found.append((scale, theta0, flow.final, value_stage(net, theta0, data, t1)))
    return found


def distance(one, other, name):
    pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(one, other, strict=True)]
    apart = sum(float(jnp.sum((a - b) ** 2)) for a, b in pairs)
    return np.sqrt(apart / sum(float(jnp.sum(b**2)) for _, b in pairs))


@pytest.mark.parametrize("name", ["W_V", "W_1", "W_2", "W_Q", "W_K"])
def test_errors_of_the_first_stage_are_of_the_predicted_order(followed, name):
    """Relative error O(ε) for W_V; the others move by O(ε³), ε² of their size: W_V, their partner
    in the product and the time each bring an ε."""
    scales = [scale for scale, *_ in followed]
    errors = [distance(flow, line, name) for _, _, flow, line in followed]
    order = np.polyfit(np.log(scales), np.log(errors), 1)[0]
    assert order == pytest.approx({"W_V": 1}.get(name, 2), abs=0.1)


def test_the_followers_are_driven_as_predicted(data):
    """Slopes at W_V = δ M: Ẇ_1 = σ'(0) δ MᵀM W_2ᵀ, Ẇ_2 = σ'(0) δ W_1ᵀ MᵀM, Ẇ_Q = δ F_1 W_K,
    Ẇ_K = δ F_1ᵀ W_Q; what is left out is smaller by δ."""
    net, delta = decoder(), 1e-6
    M, F = signal_matrix(net, data), attention_matrix(net, data)
    theta = tuple(eqx.tree_at(lambda w: w.W_V, w, delta * M) for w in weights(1e-6))
    slopes = gradient(net, data)(theta)
    for layer, slope in zip(theta, slopes, strict=True):
        expected = {
            "W_1": 0.5 * M.T @ M @ layer.W_2.T,
            "W_2": 0.5 * layer.W_1.T @ M.T @ M,
            "W_Q": F @ layer.W_K,
            "W_K": F.T @ layer.W_Q,
        }
        for name, drive in expected.items():
            found = -np.asarray(getattr(slope, name)) / delta
            assert np.linalg.norm(found - drive) < 1e-4 * np.linalg.norm(drive), name
    rates = following_rates(net, data)
    assert float(rates["feed-forward"]) == pytest.approx(0.5 * np.linalg.norm(M.T @ M, 2))
    assert float(rates["attention"]) == pytest.approx(np.linalg.norm(F, 2))


def test_adam_takes_the_signs_of_the_signal(data):
    net, theta0 = decoder(), weights(1e-9)
    run = minimise(
        lambda theta, rows: net.loss(theta, data),
        theta0, samples=N, optimizer="adamw", learning_rate=1e-3, steps=1, save_steps=[1],
    )  # fmt: skip
    M = np.asarray(signal_matrix(net, data))
    assert np.abs(M).min() > 1e-6
    for layer, start in zip(run.final, theta0, strict=True):
        moved = (np.asarray(layer.W_V) - np.asarray(start.W_V)) / 1e-3
        # Adam's ε = 1e-8 beside the gradient, and what the start adds to it
        np.testing.assert_allclose(moved, np.sign(M), atol=2e-8 / np.abs(M).min())


def test_without_residuals_the_signal_is_the_old_one(data):
    net = decoder(residual=False)
    X = np.asarray(net.embed(data.tokens)).mean(axis=1)
    U = np.asarray(net.output)
    M = X.T @ (U[:, np.asarray(data.answers)] - U.mean(axis=1)[:, None]).T / N
    np.testing.assert_allclose(signal_matrix(net, data), M, atol=1e-14)
    assert float(signal(net, data)[2]) == pytest.approx(np.linalg.norm(M, 2))
    with pytest.raises(ValueError, match=r"net\.residual must be True"):
        value_stage(net, weights(1.0), data, 1.0)
    with pytest.raises(ValueError, match=r"net\.heads must be 1"):
        attention_matrix(decoder(heads=2), data)

"""The decoder, against loops over sequences, heads and positions in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from flowsim.network.decoder import Decoder, gaussian_layers, signal
from flowsim.tasks import Sequences

V, D, S = 9, 6, 5
GELU = lambda z: z * 0.5 * (1 + erf(z / 2**0.5))  # noqa: E731
ACTIVATIONS = {"tanh": np.tanh, "gelu": GELU}


@pytest.fixture(scope="module")
def data():
    key = jax.random.key(3)
    tokens = jax.random.randint(key, (4, S), 0, V)
    return Sequences(tokens, jax.random.randint(jax.random.fold_in(key, 1), (4,), 0, V), V)


def decoder(**options):
    return Decoder(V, D, key=jax.random.key(0), dtype=jnp.float64, **options)


def weights(layers=1, scale=0.7):
    return gaussian_layers(
        jax.random.key(1), D, scale=scale, hidden_width=7, layers=layers, dtype=jnp.float64
    )


def layer_by_loops(net, layer, X, sigma):
    """One layer at every position of one sequence."""
    W_Q, W_K, W_V, W_1, W_2 = (np.asarray(W) for W in (
        layer.W_Q, layer.W_K, layer.W_V, layer.W_1, layer.W_2
    ))  # fmt: skip
    h = D // net.heads
    out = np.zeros_like(X)
    for i in range(len(X)):
        g = np.zeros(D)
        for head in range(net.heads):
            part = slice(head * h, (head + 1) * h)
            q = X[i] @ W_Q[:, part]
            scores = np.array([q @ (X[j] @ W_K[:, part]) / h**0.5 for j in range(i + 1)])
            a = np.exp(scores) / np.exp(scores).sum()
            g[part] = sum(a[j] * (X[j] @ W_V[:, part]) for j in range(i + 1))
        y = sigma(g @ W_1) @ W_2
        out[i] = X[i] + g + y if net.residual else y
    return out


@pytest.mark.parametrize(
    ("layers", "options"),
    [
        (1, {}),
        (1, {"heads": 2, "residual": True, "activation": "gelu"}),
        (2, {"heads": 3, "residual": True, "activation": "gelu", "positions": S}),
    ],
)
def test_logits_are_those_of_plain_loops(data, layers, options):
    net, theta = decoder(**options), weights(layers)
    found = np.asarray(eqx.filter_jit(net)(theta, data.tokens))
    sigma = ACTIVATIONS[net.activation.name]
    for row, logits in zip(np.asarray(data.tokens), found, strict=True):
        X = np.asarray(net.embedding)[row]
        if net.positions is not None:
            X = X + np.asarray(net.positions)
        for layer in theta:
            X = layer_by_loops(net, layer, X, sigma)
        np.testing.assert_allclose(logits, X[-1] @ np.asarray(net.output), rtol=1e-12, atol=1e-13)


def test_loss_is_the_cross_entropy(data):
    net, theta = decoder(), weights()
    logits = np.asarray(eqx.filter_jit(net)(theta, data.tokens))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    chosen = p[np.arange(data.size), np.asarray(data.answers)]
    assert float(eqx.filter_jit(net.loss)(theta, data)) == pytest.approx(
        -np.log(chosen).mean(), rel=1e-13
    )
    hits = p.argmax(axis=1) == np.asarray(data.answers)
    assert float(eqx.filter_jit(net.accuracy)(theta, data)) == pytest.approx(hits.mean())


def test_small_weights_see_the_signal_alone(data):
    """log V − L → σ'(0) tr(W_V W_1 W_2 Mᵀ), the error two orders of ε further on (tanh is odd)."""
    net = decoder()
    M = np.zeros((D, D))
    E, U = np.asarray(net.embedding), np.asarray(net.output)
    for row, answer in zip(np.asarray(data.tokens), np.asarray(data.answers), strict=True):
        M += np.outer(E[row].mean(axis=0), U[:, answer] - U.mean(axis=1)) / data.size
    errors, loss = [], eqx.filter_jit(net.loss)
    for scale in (2e-2, 1e-2):
        (layer,) = theta = weights(scale=scale)
        product = np.asarray(layer.W_V @ layer.W_1 @ layer.W_2)
        errors.append(np.log(V) - float(loss(theta, data)) - np.sum(product * M))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.5)
    v, o, c = signal(net, data)
    np.testing.assert_allclose(M @ o, c * v, atol=1e-13)
    assert float(c) == pytest.approx(np.linalg.norm(M, 2), rel=1e-12)


def test_weights_have_their_scale_and_each_layer_its_own():
    theta = gaussian_layers(jax.random.key(0), 64, rate=0.85, layers=2, dtype=jnp.float64)
    for layer in theta:
        for W in jax.tree.leaves(layer):
            # 4096 entries or more: the standard error of their deviation is 1.1 % or less
            assert float(jnp.std(W)) == pytest.approx(64**-0.85, rel=0.05)
    assert theta[0].W_1.shape == (64, 128)
    assert not np.array_equal(theta[0].W_Q, theta[1].W_Q)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: decoder(heads=4), "heads must divide the width, 6; got 4"),
        (lambda: decoder(activation="relu"), "activation must satisfy"),
        (lambda: gaussian_layers(jax.random.key(0), 4), "exactly one of scale and rate"),
        (lambda: gaussian_layers(jax.random.key(0), 4, scale=-1.0), "scale must be positive"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()

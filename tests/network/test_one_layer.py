"""The network against an independent NumPy evaluation of [CL 1–3] and its symmetries."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters, products
from flowsim.network.products import chain, factors_first
from flowsim.tasks import Task

SIGMA = {
    "tanh": np.tanh,
    "gelu": lambda z: z * (1 + scipy.special.erf(z / np.sqrt(2))) / 2,
    "silu": lambda z: z / (1 + np.exp(-z)),
    "identity": lambda z: z,
}
LOSS = {"exponential": lambda q: np.exp(-q), "logistic": lambda q: np.log(1 + np.exp(-q))}
KINDS = ["softmax", "first_order", "uniform"]
seeds = st.integers(0, 2**31)
few = settings(max_examples=8, deadline=None, derandomize=True)


def attention_matrix(kind, scores):
    s = len(scores)
    if kind == "softmax":
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    if kind == "first_order":
        return 1 / s + (scores - scores.mean(axis=1, keepdims=True)) / s
    return np.full((s, s), 1 / s)


def numpy_output(kind, sigma, weights, X_i):
    """[CL 1, 2] to the letter: the whole s×s attention, then the last row."""
    W_Q, W_K, W_V, W_1, W_2 = weights
    scores = X_i @ W_Q @ W_K.T @ X_i.T / np.sqrt(W_Q.shape[1])
    return (sigma(attention_matrix(kind, scores) @ X_i @ W_V @ W_1) @ W_2)[-1]


def numpy_outputs(kind, sigma, weights, X):
    return np.array([numpy_output(kind, sigma, weights, X_i) for X_i in X])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", SIGMA)
def test_outputs_are_those_of_the_formulas(task, theta, kind, sigma):
    net = OneLayerTransformer(sigma, attention=kind)
    weights = [np.asarray(w) for w in jax.tree.leaves(theta)]
    expected = numpy_outputs(kind, SIGMA[sigma], weights, np.asarray(task.X))
    np.testing.assert_allclose(net(theta, task.X), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sigma", "ell"), [("tanh", "exponential"), ("gelu", "logistic")])
def test_gradient_is_the_finite_difference_of_the_formulas(task, theta, kind, sigma, ell):
    """Five-point differences of [CL 3]: h⁴ ∂⁵L/30 is about 1e-12, rounding 1e-16/h below it."""
    net = OneLayerTransformer(sigma, ell, kind)
    flat, unravel = ravel_pytree(theta)
    X, y = np.asarray(task.X), np.asarray(task.y)

    def numpy_loss(flat):
        weights = [np.asarray(w) for w in jax.tree.leaves(unravel(jnp.asarray(flat)))]
        return LOSS[ell](y * numpy_outputs(kind, SIGMA[sigma], weights, X)).mean()

    h, flat = 2e-4, np.asarray(flat)
    steps = h * np.eye(flat.size)
    expected = [
        (8 * (numpy_loss(flat + e) - numpy_loss(flat - e)) - numpy_loss(flat + 2 * e)
         + numpy_loss(flat - 2 * e)) / (12 * h)
        for e in steps
    ]  # fmt: skip
    got, _ = ravel_pytree(jax.grad(net.loss)(theta, task))
    scale = np.abs(got).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(net.loss(theta, task), numpy_loss(flat), rtol=1e-13)


@pytest.mark.parametrize("n", [2, 50])
def test_both_orders_of_a_product_agree(n):
    rng = np.random.default_rng(n)
    rows, A, B = (jnp.asarray(rng.normal(size=size)) for size in [(n, 5), (5, 3), (3, 4)])
    np.testing.assert_allclose(chain(rows, A, B), rows @ A @ B, rtol=1e-12, atol=1e-13)


def test_the_order_of_a_product_is_the_one_with_fewer_multiplications():
    assert factors_first(1797, 16, 16, 16)
    assert factors_first(1000, 640, 640, 640)
    assert not factors_first(100, 640, 640, 640)
    assert not factors_first(1797, 640, 8, 640)


@given(seeds)
@few
def test_outputs_do_not_depend_on_the_order_of_the_samples_and_of_the_keys(seed):
    """Samples are independent, and attention sees the tokens before the last one as a set."""
    task, theta = drawn(seed)
    net = OneLayerTransformer("gelu")
    rng = np.random.default_rng(seed)
    samples, tokens = rng.permutation(9), np.append(rng.permutation(3), 3)
    moved = net(theta, task.X[samples][:, tokens])
    np.testing.assert_allclose(moved, net(theta, task.X)[samples], rtol=1e-11, atol=1e-13)
    shuffled = Task(task.X[samples], task.y[samples])
    np.testing.assert_allclose(net.loss(theta, shuffled), net.loss(theta, task), rtol=1e-13)


@given(seeds)
@few
def test_an_orthogonal_change_of_basis_leaves_the_outputs(seed):
    """X → XO with O orthogonal, W_Q, W_K, W_V → Oᵀ(·); the direction turns along."""
    task, theta = drawn(seed)
    net = OneLayerTransformer("silu")
    turn = jnp.asarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0])
    turned = Parameters(
        turn.T @ theta.W_Q, turn.T @ theta.W_K, turn.T @ theta.W_V, theta.W_1, theta.W_2
    )
    other = Task(task.X @ turn, task.y)
    np.testing.assert_allclose(net(turned, other.X), net(theta, task.X), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(net.direction(other), net.direction(task) @ turn, atol=1e-13)
    np.testing.assert_allclose(net.kappa(other), net.kappa(task), rtol=1e-12)


def drawn(seed):
    rng = np.random.default_rng(seed)
    task = Task(rng.normal(size=(9, 4, 5)), np.append(np.ones(5), -np.ones(4)))
    widths = {"key_width": 3, "value_width": 4, "hidden_width": 6}
    return task, gaussian_parameters(jax.random.key(seed), 5, scale=0.7, **widths)


@pytest.mark.parametrize(
    ("sigma", "ell", "factor"),
    [
        ("tanh", "exponential", 1.0),
        ("gelu", "logistic", 0.25),
        (lambda z: -3 * jnp.sin(z), "logistic", 1.5),
        ("tanh", lambda q: (1 - q) ** 2, 2.0),
    ],
)
def test_kappa_is_positive_and_the_direction_has_the_sign_of_the_slope(task, sigma, ell, factor):
    net = OneLayerTransformer(sigma, ell)
    S = np.einsum("n,nsd->d", task.y, task.X)
    assert float(net.kappa(task)) == pytest.approx(factor * np.linalg.norm(S) / 36)
    expected = np.sign(net.slope) * S / np.linalg.norm(S)
    np.testing.assert_allclose(net.direction(task), expected, rtol=1e-12)


def test_the_linearised_network_is_the_limit_of_small_outputs(task, theta):
    net = OneLayerTransformer("gelu", "logistic", "first_order")
    small = eqx.tree_at(lambda w: w.W_V, theta, 1e-7 * theta.W_V)
    limit = net.linearised()(small, task.X)
    np.testing.assert_allclose(net(small, task.X), limit, rtol=1e-5)
    assert net.linearised().slope == net.slope
    assert net.linearised().attention == "first_order"
    assert net.linearised().kappa(task) == net.kappa(task)


def test_first_order_attention_is_the_limit_of_small_scores(task, theta):
    """softmax = its first order + O(scores²): slope 2 in the size of the scores."""
    errors = []
    for scale in (1e-2, 1e-3):
        pair = [
            OneLayerTransformer(attention=kind).attention_weights(
                scale * theta.W_Q, theta.W_K, task.X
            )
            for kind in ("softmax", "first_order")
        ]
        errors.append(jnp.abs(pair[0] - pair[1]).max())
    assert np.log10(errors[0] / errors[1]) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("ell", ["logistic", lambda q: (1 - q) ** 2])
def test_large_weights_do_not_overflow(task, theta, ell):
    huge = jax.tree.map(lambda w: 1e4 * w, theta)
    value, gradient = jax.value_and_grad(OneLayerTransformer("gelu", ell).loss)(huge, task)
    assert np.isfinite(value)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradient))


def test_equal_choices_do_not_trace_again(task, theta):
    traces = []

    @jax.jit
    def outputs(net, theta, X):
        traces.append(net)
        return net(theta, X)

    outputs(OneLayerTransformer("gelu"), theta, task.X)
    outputs(OneLayerTransformer("gelu"), theta, 2 * task.X)
    assert len(traces) == 1
    assert OneLayerTransformer("gelu") == OneLayerTransformer("gelu")
    assert hash(OneLayerTransformer("gelu")) == hash(OneLayerTransformer("gelu"))
    outputs(OneLayerTransformer("gelu").linearised(), theta, task.X)
    outputs(OneLayerTransformer("gelu").linearised(), theta, task.X)
    assert len(traces) == 2


def test_refuses_unknown_attention():
    with pytest.raises(ValueError, match="attention must be one of softmax, first_order, uniform"):
        OneLayerTransformer(attention="linear")


def test_large_products_have_the_usual_derivatives(monkeypatch):
    """Values, both modes and second derivatives of the product with its own rule."""
    monkeypatch.setattr(products, "LARGE", 1)
    rng = np.random.default_rng(0)
    A, B, dA, dB = (jnp.asarray(rng.normal(size=s)) for s in ((5, 3), (3, 4), (5, 3), (3, 4)))

    def size(multiply, A, B):
        return jnp.sum(jnp.sin(multiply(A, B)))

    for derivative in (
        lambda f: jax.grad(f, argnums=(0, 1))(A, B),
        lambda f: jax.jvp(f, (A, B), (dA, dB)),
        lambda f: jax.jvp(jax.grad(f, argnums=(0, 1)), (A, B), (dA, dB)),
        lambda f: jax.vmap(lambda B: jax.grad(f, argnums=1)(A, B))(jnp.stack([B, dB])),
    ):
        ours = derivative(lambda A, B: size(products.product, A, B))
        usual = derivative(lambda A, B: size(jnp.matmul, A, B))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), ours, usual
        )

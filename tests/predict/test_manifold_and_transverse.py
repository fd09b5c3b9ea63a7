"""The condensed manifold inside the full flow, and the linear flow across it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.flows import Condensed, CondensedState, Full, embed
from flowsim.integrate import integrate
from flowsim.network import OneLayerTransformer
from flowsim.predict.manifold import Manifold, beta, off_direction, off_manifold
from flowsim.predict.span import Span, span_of
from flowsim.predict.transverse import pull, transverse_flow
from flowsim.tasks import Task

D, H, M, K = 5, 4, 6, 3
NET = OneLayerTransformer("gelu", "logistic")
RNG = np.random.default_rng(7)
N = RNG.normal(size=H) / np.linalg.norm(RNG.normal(size=H))
N = jnp.asarray(N / np.linalg.norm(N))


@pytest.fixture(scope="module")
def task() -> Task:
    rng = np.random.default_rng(0)
    return Task(rng.normal(size=(9, 4, D)), np.where(rng.random(9) < 0.5, -1.0, 1.0))


@pytest.fixture(scope="module")
def state() -> CondensedState:
    shapes = (D,), (M,), (M,), (D, K), (D, K)
    return CondensedState(*(jnp.asarray(0.8 * RNG.normal(size=shape)) for shape in shapes))


@pytest.fixture(scope="module")
def manifold() -> Manifold:
    R_V, R_1 = RNG.normal(size=(D, H)), RNG.normal(size=(H, M))
    across = np.eye(H) - np.outer(N, N)
    return placed(R_V @ across, across @ R_1)


def placed(R_V, R_1) -> Manifold:
    """With these remainders, in the coordinates of the task."""
    still = CondensedState(*(jnp.zeros(s) for s in ((D,), (M,), (M,), (D, K), (D, K))))
    return Manifold(N, jnp.asarray(R_V), jnp.asarray(R_1), Span(jnp.eye(D)), still)


def test_the_full_flow_started_on_the_manifold_stays_on_it(task, state):
    """theory.md, section 6: to the accuracy of the integrator."""
    full = integrate(Full(NET, task), embed(state, N), 4.0, rtol=1e-10)
    condensed = integrate(Condensed(NET, task), state, 4.0, rtol=1e-10)
    expected = embed(condensed.final, N)
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        got, want = getattr(full.final, name), getattr(expected, name)
        assert float(jnp.linalg.norm(got - want)) < 1e-8 * float(jnp.linalg.norm(want)), name


def test_the_loss_feels_the_remainders_at_second_order(task, state, manifold):
    theta = embed(state, N)
    changes = []
    for size in (1e-2, 1e-3):
        near = eqx.tree_at(
            lambda m: (m.R_V, m.R_1), manifold, (size * manifold.R_V, size * manifold.R_1)
        )
        changes.append(abs(float(NET.loss(near.weights(state), task) - NET.loss(theta, task))))
    assert np.log10(changes[0] / changes[1]) == pytest.approx(2, abs=0.02)


def test_the_transverse_flow_is_the_jacobian_of_the_full_flow(task, state, manifold):
    """J (R_V, R_1) = (G R_1ᵀ, R_Vᵀ G), by forward differentiation of the full rate; so the
    transverse growth rates are the singular values of G."""
    zero = jax.tree.map(jnp.zeros_like, embed(state, N))
    tangent = eqx.tree_at(lambda w: (w.W_V, w.W_1), zero, (manifold.R_V, manifold.R_1))
    rate = lambda theta: Full(NET, task).rate(0.0, theta)  # noqa: E731
    image = jax.jvp(rate, (embed(state, N),), (tangent,))[1]
    G = pull(NET, task, state)
    np.testing.assert_allclose(image.W_V, G @ manifold.R_1.T, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(image.W_1, manifold.R_V.T @ G, rtol=1e-10, atol=1e-13)
    for name in ("W_Q", "W_K", "W_2"):
        np.testing.assert_allclose(getattr(image, name), 0, atol=1e-13)


def test_remainders_follow_the_full_flow(task, state, manifold):
    """Small remainders integrated with the full model, against the linear flow along the condensed
    one."""
    size, end = 1e-5, 4.0
    small = eqx.tree_at(
        lambda m: (m.R_V, m.R_1), manifold, (size * manifold.R_V, size * manifold.R_1)
    )
    full = integrate(Full(NET, task), small.weights(state), end, rtol=1e-12).final
    condensed = integrate(Condensed(NET, task), state, end, rtol=1e-9)
    found = transverse_flow(NET, task, condensed, small, 0.0, 0.0)
    (R_V, R_1), _ = found.at(np.array([end]))
    theta = embed(condensed.final, N)
    scale = float(jnp.linalg.norm(R_V[0]))
    assert scale > 1.05 * float(jnp.linalg.norm(small.R_V))  # they did grow
    np.testing.assert_allclose(full.W_V - theta.W_V, R_V[0], atol=1e-3 * scale)
    np.testing.assert_allclose(full.W_1 - theta.W_1, R_1[0], atol=1e-3 * scale)
    assert found.trusted_until == np.inf


def test_large_remainders_end_the_trust(task, state, manifold):
    condensed = integrate(Condensed(NET, task), state, 4.0)
    product = np.linalg.norm(manifold.R_V @ manifold.R_1)
    size = np.linalg.norm(state.p) * np.linalg.norm(state.q)
    share = (0.0099 * size / product) ** 0.5
    near = placed(share * manifold.R_V, share * manifold.R_1)
    found = transverse_flow(NET, task, condensed, near, 0.0, 0.0)
    assert found.share[0] == pytest.approx(0.0099)
    assert 0 < found.trusted_until < 4.0
    assert found.share[-1] > 0.01 >= found.share[-2]
    assert found.rate >= found.rates[-1] > 0


def test_parts_of_the_start(state):
    W_V, W_1 = RNG.normal(size=(D, H)), jnp.asarray(RNG.normal(size=(H, M)))
    v = RNG.normal(size=D)
    v = jnp.asarray(v / np.linalg.norm(v))
    theta = eqx.tree_at(lambda w: w.W_V, embed(state, N), jnp.asarray(W_V))
    np.testing.assert_allclose(v @ off_direction(theta, v), 0, atol=1e-14)
    m = jnp.asarray(np.eye(M)[2])
    rest = off_manifold(W_1, N, m)
    np.testing.assert_allclose(N @ rest, 0, atol=1e-14)
    np.testing.assert_allclose(rest @ m, 0, atol=1e-14)
    inside = embed(state, N)
    np.testing.assert_allclose(
        beta(state), inside.W_V @ inside.W_1 @ inside.W_2, rtol=1e-12, atol=1e-13
    )


def test_tokens_in_a_plane_give_the_same_model_in_two_coordinates(state):
    """Outputs and rates of the full model at weights across the plane too."""
    rng = np.random.default_rng(8)
    plane = np.linalg.qr(rng.normal(size=(D, 2)))[0]
    tokens = rng.normal(size=(9, 4, 2)) @ plane.T
    flat = Task(tokens, np.where(rng.random(9) < 0.5, -1.0, 1.0))
    span = span_of(flat)
    assert span.basis.shape == (D, 2)
    np.testing.assert_allclose(plane @ plane.T, span.basis @ span.basis.T, atol=1e-13)
    inner, still = (
        CondensedState(part(state.p), state.q, state.r, part(state.W_Q), part(state.W_K))
        for part in (span.into, span.across)
    )
    manifold = Manifold(N, jnp.zeros((D, H)), jnp.zeros((H, M)), span, still)
    rate = manifold.rate(Condensed(NET, span.task(flat)).rate(0.0, inner))
    theta = manifold.weights(inner)
    for name in ("W_Q", "W_K", "W_V", "W_1", "W_2"):
        np.testing.assert_allclose(getattr(theta, name), getattr(embed(state, N), name), atol=1e-14)
        expected = getattr(Full(NET, flat).rate(0.0, theta), name)
        np.testing.assert_allclose(getattr(rate, name), expected, atol=1e-13, err_msg=name)


def test_tokens_that_span_the_space_keep_their_coordinates(task):
    span = span_of(task)
    np.testing.assert_array_equal(span.basis, np.eye(D))
    assert span.task(task) is task

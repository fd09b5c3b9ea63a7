"""Assumption 1 against plain loops, closed cases and the leading-order flow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import flowsim.observables as obs
from flowsim.network import gaussian_parameters


def by_loops(theta, v):
    """The four families of [CL, Assumption 1], index by index in plain NumPy."""
    w, W_1, W_2 = (np.asarray(a) for a in (v @ theta.W_V, theta.W_1, theta.W_2))
    h, m = W_1.shape
    hidden = [W_2[i] * sum(w[j] * W_1[j, i] for j in range(h)) > 0 for i in range(m)]
    value = [w[i] * sum(W_1[i, j] * W_2[j] for j in range(m)) > 0 for i in range(h)]
    pair_hidden = [
        [np.dot(W_2[i] * W_1[:, i], W_2[j] * W_1[:, j]) > 0 for j in range(m)] for i in range(m)
    ]
    pair_value = [[np.dot(w[i] * W_1[i], w[j] * W_1[j]) > 0 for j in range(h)] for i in range(h)]
    found = {"A1 hidden": hidden, "A1 value": value}
    found |= {"A2 hidden": pair_hidden, "A2 value": pair_value}
    if h == m:
        found["A1"] = np.logical_and(hidden, value)
        found["A2"] = np.logical_and(pair_hidden, pair_value)
    return {name: np.mean(held) for name, held in found.items()}


@pytest.mark.parametrize("widths", [(4, 4), (5, 3)])
def test_against_plain_loops(widths):
    h, m = widths
    for seed in range(5):
        key, key_v = jax.random.split(jax.random.key(seed))
        theta = gaussian_parameters(key, 4, scale=1e-2, value_width=h, hidden_width=m)
        v = obs.unit_vectors(jax.random.normal(key_v, (4,)))
        exact = by_loops(theta, v)
        found = obs.condensation_condition(theta, v)
        assert {name: pytest.approx(float(x)) for name, x in found.items()} == exact


def test_signs_survive_tiny_float32_weights():
    theta = gaussian_parameters(jax.random.key(7), 4, scale=1.0)
    v = jnp.array([0.6, 0.0, 0.8, 0.0])
    tiny = jax.tree.map(lambda W: (1e-20 * W).astype(jnp.float32), theta)
    found = obs.condensation_condition(tiny, v.astype(jnp.float32))
    exact = by_loops(theta, v)
    assert {name: pytest.approx(float(x)) for name, x in found.items()} == exact
    zero = jax.tree.map(jnp.zeros_like, tiny)
    assert all(x == 0 for x in obs.condensation_condition(zero, v.astype(jnp.float32)).values())


def test_shares_of_random_starts():
    """½, ½ + 1/(2 size) and about ¼ at d = 64, over 20 starts (theory.md, section 10)."""
    d, starts = 64, 20
    random = np.random.default_rng(0)
    structure = jax.tree.structure(gaussian_parameters(jax.random.key(0), 4, scale=1.0))
    shapes = [(1, 1), (1, 1), (d, d), (d, d), (d,)]
    leaves = [jnp.asarray(1e-3 * random.standard_normal((starts, *shape))) for shape in shapes]
    v = jnp.asarray(np.eye(d)[0])
    shares = jax.vmap(obs.condensation_condition, (0, None))
    found = shares(jax.tree.unflatten(structure, leaves), v)
    means = {name: float(np.mean(x)) for name, x in found.items()}
    # indices share one start's weights, so shares scatter by about 0.06 a start: 0.015 for 20
    expected = {"A1 hidden": 0.5, "A1 value": 0.5, "A1": 0.251, "A2": 0.261}
    expected |= {"A2 hidden": 0.5 + 1 / 128, "A2 value": 0.5 + 1 / 128}
    assert means == {name: pytest.approx(x, abs=0.045) for name, x in expected.items()}


def test_all_hold_near_the_blow_up_of_the_leading_order_flow():
    """[CL 7] integrated by SciPy until ‖w‖ has grown three-hundredfold (Proposition 4)."""
    d = 4
    theta = gaussian_parameters(jax.random.key(3), d, scale=1.0)
    v = jnp.zeros(d).at[0].set(1.0)

    def rate(_, flat):
        w, W_1, W_2 = flat[:d], flat[d:-d].reshape(d, d), flat[-d:]
        return np.concatenate([W_1 @ W_2, np.outer(w, W_2).ravel(), W_1.T @ w])

    def grown(_, flat):
        return np.linalg.norm(flat[:d]) - 300.0

    grown.terminal = True
    start = np.concatenate([theta.W_V[0], np.ravel(theta.W_1), theta.W_2])
    end = solve_ivp(rate, (0, 50), start, events=grown, rtol=1e-9, atol=1e-9)
    assert end.status == 1
    flat = jnp.asarray(end.y[:, -1])
    final = jax.tree.unflatten(
        jax.tree.structure(theta),
        [theta.W_Q, theta.W_K, jnp.outer(v, flat[:d]), flat[d:-d].reshape(d, d), flat[-d:]],
    )
    before = obs.condensation_condition(theta, v)
    assert min(before.values()) < 1
    assert all(x == 1 for x in obs.condensation_condition(final, v).values())
    assert obs.condensation_rate(final.W_V, v) == 1
    assert obs.effective_rank(final.W_1) == pytest.approx(1, abs=0.05)

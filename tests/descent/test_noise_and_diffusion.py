"""Batch noise against dense covariances; the diffusion against closed forms and SGD ensembles."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import flowsim as fs
from flowsim.descent import diffuse, train
from flowsim.descent.noise import BatchNoise
from flowsim.integrate.diffusion import diffusion, mean_and_variance

#: Both ensembles of two tests together make about twenty comparisons: 3.5 standard errors are
#: exceeded by chance in 1 % of all choices of keys.
SIGMAS = 3.5


@pytest.fixture(scope="module")
def covariance(net, task, theta0):
    """(1/n) Σ (g_i − ḡ)(g_i − ḡ)ᵀ from the Jacobian of the single losses."""
    vector, restore = ravel_pytree(theta0)
    losses = lambda v: jnp.exp(-task.y * net(restore(v), task.X))  # noqa: E731
    return np.cov(np.asarray(jax.jacobian(losses)(vector)).T, bias=True)


def test_noise_has_the_covariance_of_a_batch(net, task, theta0, covariance):
    noise = BatchNoise(net, task, 5)
    columns = jax.jit(jax.vmap(lambda xi: ravel_pytree(noise(theta0, xi))[0]))(jnp.eye(20))
    np.testing.assert_allclose(columns.T @ columns, covariance / 5, atol=1e-12 * covariance.max())


def test_variance_along_a_direction(net, task, theta0, covariance):
    direction = jax.tree.map(jnp.ones_like, theta0)
    found = BatchNoise(net, task, 5).along(theta0, direction)
    assert float(found) == pytest.approx(covariance.sum() / 5, rel=1e-11)


def test_noise_is_the_spread_of_drawn_batches(net, task, theta0, covariance):
    """The variance of one SGD step is η² direction · Σ direction."""
    step = lambda key: ravel_pytree(  # noqa: E731
        train(net, task, theta0, learning_rate=1.0, steps=1, batch_size=5, replace=True, key=key)
        .final
    )[0].sum()  # fmt: skip
    steps = jax.jit(jax.vmap(step))(jax.random.split(jax.random.key(2), 4000))
    _, _, variance, error = mean_and_variance(steps)
    assert abs(float(variance) - covariance.sum() / 5) < SIGMAS * float(error)


def test_diffusion_of_a_linear_field_has_its_moments():
    """dX = −aX dt + s dW by steps δ: mean (1−aδ)^N, variance s²δ (1−(1−aδ)^{2N})/(1−(1−aδ)²)."""
    a, s, step, steps = 1.3, 0.7, 0.125, 8

    @jax.jit
    @jax.vmap
    def path(key):
        return diffusion(
            lambda t, x, args: -args * x, lambda t, x, xi, args: s * xi, jnp.ones(1),
            dimension=1, step=jnp.asarray(step), steps=steps, saves=2, key=key,
            args=jnp.asarray(a),
        ).states[:, 0]  # fmt: skip

    found = path(jax.random.split(jax.random.key(4), 20_000))
    mean, mean_error, variance, variance_error = mean_and_variance(found)
    assert np.all(np.asarray(found[:, 0]) == 1)
    for column, count in ((1, 4), (2, 8)):
        factor = (1 - a * step) ** count
        spread = s**2 * step * (1 - factor**2) / (1 - (1 - a * step) ** 2)
        assert abs(mean[column] - factor) < SIGMAS * mean_error[column]
        assert abs(variance[column] - spread) < SIGMAS * variance_error[column]


def test_standard_errors_are_those_of_normal_numbers():
    values = jax.random.normal(jax.random.key(0), (100_000,))
    mean, mean_error, variance, variance_error = map(float, mean_and_variance(values))
    values = np.asarray(values)
    assert mean == pytest.approx(np.mean(values), rel=1e-12)
    assert variance == pytest.approx(np.var(values, ddof=1), rel=1e-12)
    assert mean_error == pytest.approx(1e5**-0.5, rel=0.02)
    # the variance of s² is 2σ⁴/N for normal numbers
    assert variance_error == pytest.approx((2 / 1e5) ** 0.5, rel=0.02)


def test_diffusion_matches_sgd_in_mean_and_variance(task, theta0):
    """Order 2 lies within the confidence interval of SGD; order 1 is off by its O(η) drift."""
    net = fs.OneLayerTransformer(loss="logistic")
    arguments = {"learning_rate": 0.4, "steps": 12, "batch_size": 4}

    def seen(theta):
        return jnp.stack([net.loss(theta, task), jnp.linalg.norm(theta.W_2), theta.W_V[0, 0]])

    def sgd(key):
        run = train(net, task, theta0, **arguments, replace=True, key=key, save_steps=[12])
        return seen(run.final)

    def sde(key, order):
        return seen(diffuse(net, task, theta0, **arguments, order=order, key=key).final)

    @eqx.filter_jit
    def ensembles(keys):
        other = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
        first = [jax.vmap(lambda key, order=order: sde(key, order))(other) for order in (1, 2)]
        return jax.vmap(sgd)(keys), *first

    expected, first, second = map(
        mean_and_variance, ensembles(jax.random.split(jax.random.key(0), 3000))
    )

    def z(found, i):
        return np.abs(found[i] - expected[i]) / np.hypot(found[i + 1], expected[i + 1])

    assert np.all(z(second, 0) < SIGMAS)
    assert np.all(z(second, 2) < SIGMAS)
    assert np.all(z(first, 2) < SIGMAS)
    # loss and ‖W_2‖ move far along the drift, so that its error of order η is seen
    assert np.all(z(first, 0)[:2] > 2 * SIGMAS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 21}, "batch_size must be at most the number of samples, 20; got 21"),
        ({"order": 3}, "order must be 1 or 2; got 3"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"saves": 5}, "saves must divide the number of steps, 12; got 5"),
    ],
)
def test_bad_input_is_named(net, task, theta0, change, message):
    arguments = {"learning_rate": 0.1, "steps": 12, "batch_size": 4} | change
    with pytest.raises(ValueError, match=message):
        diffuse(net, task, theta0, **arguments, key=jax.random.key(0))

"""`solve_to_blow_up` of pytrees, under transformations, and of bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim as fs
from flowsim.blow_up import solve_to_blow_up

INF = np.inf


def test_a_field_that_closes_over_what_is_traced():
    def time(power):
        return solve_to_blow_up(lambda t, y, args: jnp.abs(y) ** power, 1.0).time

    assert jax.jit(time)(3.0) == pytest.approx(0.5, rel=1e-8)


def counted_square():
    count = [0]

    def rate(t, y, args):
        count[0] += 1
        return jax.tree.map(lambda x: x @ x if x.ndim == 2 else x**2, y)

    return rate, count


def test_pytrees_matrices_and_no_retrace():
    """Ẏ = Y² blows up at the inverse of Y0's largest eigenvalue."""
    rate, count = counted_square()
    start = {"a": np.array([0.5, -1.0]), "b": (np.array([[1.0, 1], [1, 1]]),)}
    found = solve_to_blow_up(rate, start)
    assert abs(found.time - 0.5) <= min(5e-9, found.error)
    assert found.state["a"] == pytest.approx([1 / 1.5, -1 / 1.5], rel=1e-9)
    first = count[0]
    for rtol, t1, factor in ((1e-9, INF, 2), (1e-6, 10.0, 0.5), (1e-3, 0.1, 1)):
        scaled = jax.tree.map(lambda x: factor * x, start)  # noqa: B023
        found = solve_to_blow_up(rate, scaled, rtol=rtol, t1=t1, t0=-0.25)
        assert abs(found.time - (0.5 / factor - 0.25)) <= found.error
        assert (found.outcome == "blow_up") == (0.5 / factor < t1 + 0.25)
    assert count[0] == first


def test_vmap_under_jit_gives_outcomes_as_data():
    def field(t, y, rate):
        return jnp.where(y > 0, y**2, 0) + rate * y

    def solve(y, rate):
        return solve_to_blow_up(field, y, t1=50.0, args=rate)

    starts = np.array([1.0, 1e-3, -1, 2, np.nan, 0])
    found = jax.jit(jax.vmap(solve, (0, None)))(starts, 1.0)
    names = ["blow_up", "blow_up", "reached_end", "blow_up", "non_finite", "reached_end"]
    assert list(found.outcome.name) == names
    blown = np.array([0, 1, 3])
    error = np.abs(found.time[blown] - np.log(1 + 1 / starts[blown]))
    assert np.all(error <= np.minimum(found.error[blown], 1e-8))
    assert np.all(np.isinf(np.delete(found.time, blown)))
    assert found.state[2] == pytest.approx(-np.exp(50), rel=1e-8)


def test_single_precision():
    found = solve_to_blow_up(lambda t, y, args: y**2, np.float32(1))
    assert found.time.dtype == np.float32
    assert abs(found.time - 1) <= found.error <= 1e-4
    assert found.exponent == pytest.approx(1, abs=0.05)


def test_a_flow_of_flowsim():
    """The leading-order flow of full matrices against `blow_up_time` of the unit-rate flow."""
    task = fs.tasks.gaussian(6, 3, 4)
    theta = fs.gaussian_parameters(jax.random.key(1), 4, scale=1e-2)
    kappa = 0.7
    found = solve_to_blow_up(fs.flows.LeadingOrder(task, kappa), theta)
    exact = fs.blow_up_time(task.direction @ theta.W_V, theta.W_1, theta.W_2)
    assert abs(found.time - exact.time / kappa) <= min(found.error, 1e-8 * found.time)


BAD = {
    "not finite": ({"y0": np.nan}, ValueError, "y0 must be finite"),
    "complex": ({"y0": 1j}, ValueError, "y0 must be real"),
    "shape": ({"rate": lambda t, y, a: jnp.stack([y, y])}, ValueError, "rate must return"),
    "dtype": ({"rate": lambda t, y, a: jnp.float32(1)}, ValueError, "rate must return"),
    "branch": ({"rate": lambda t, y, a: y if y > 0 else -y}, TypeError, "use jnp.where"),
    "numpy": ({"rate": lambda t, y, a: np.exp(y)}, TypeError, "use jax.numpy"),
    "no rate": ({"rate": 3}, TypeError, "rate must be callable"),
    "t1 at t0": ({"t1": 0.0}, ValueError, "t1 must be larger"),
    "t1 before t0": ({"t0": 1.0, "t1": 0.5}, ValueError, "t1 must be larger"),
    "t0 infinite": ({"t0": -INF}, ValueError, "finite t0"),
    "rtol 1e-14": ({"rtol": 1e-14}, ValueError, "rtol must lie in"),
    "rtol 0.1": ({"rtol": 0.1}, ValueError, "rtol must lie in"),
    "steps beyond count": ({"max_steps": 2**40}, ValueError, "max_steps must be an integer <= 2"),
    "no steps": ({"max_steps": 0}, ValueError, "max_steps must be an integer >= 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    changed, error, message = BAD[name]
    arguments = {"rate": lambda t, y, a: y**2, "y0": 1.0} | changed
    with pytest.raises(error, match=message):
        solve_to_blow_up(arguments.pop("rate"), arguments.pop("y0"), **arguments)


def test_a_derivative_is_refused_in_words():
    with pytest.raises(RuntimeError, match="solve_to_blow_up has no derivative"):
        jax.grad(lambda y: solve_to_blow_up(lambda t, y, args: y**2, y).time)(1.0)

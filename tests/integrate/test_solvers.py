"""Every solver on this project's flows: order, invariants, units, symmetries.

Each solver compiles each flow once: tolerances, times, weights and data are traced.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import flowsim as fs
from flowsim.flows.leading_order import outer
from flowsim.integrate import integrate
from flowsim.integrate.solvers import SOLVERS
from flowsim.observables import invariants
from flowsim.observables.conserved import conserved

#: Order of the solution that each solver carries on, and tolerances over which it is fitted.
ORDERS = {"tsit5": 5, "dopri5": 5, "dopri8": 8, "kvaerno5": 5}
TOLERANCES = {
    "tsit5": np.logspace(-5, -9, 9),
    "dopri5": np.logspace(-5, -9, 9),
    "dopri8": np.logspace(-6, -11, 11),
    "kvaerno5": np.logspace(-5, -9, 9),
}
NET = fs.OneLayerTransformer("tanh", "logistic")
KAPPA, STRETCH = 0.25, 0.9


def size(tree):
    return float(jnp.linalg.norm(ravel_pytree(tree)[0]))


def distance(a, b):
    """Relative distance of two states."""
    return size(jax.tree.map(lambda x, y: x - y, a, b)) / size(b)


@dataclasses.dataclass(frozen=True)
class Problem:
    """A flow with a start, an end and what the exact state is there."""

    flow: object
    y0: object
    t1: float
    exact: object

    def solve(self, solver, rtol, **changes):
        """The run that saves its end alone."""
        given = {"flow": self.flow, "y0": self.y0, "t1": self.t1} | changes
        t1 = given.pop("t1")
        return integrate(
            given.pop("flow"), given.pop("y0"), t1, times=[t1], solver=solver, rtol=rtol, **given
        )


@pytest.fixture(scope="module")
def task():
    return fs.tasks.gaussian(samples=12, length=3, width=3)


def leading_order(task):
    """Balanced and of rank one: the radius is r = 1/(T − κt) with T = 1/r(0), no more moves."""
    n, m = jnp.asarray([0.6, 0.8]), jnp.asarray([1.0, 2.0, 2.0]) / 3
    still = jnp.zeros((3, 2))

    def state(r):
        return fs.Parameters(
            still, still, r * jnp.outer(task.direction, n), r * jnp.outer(n, m), r * m
        )

    flow = fs.flows.LeadingOrder(task, KAPPA)
    return Problem(flow, state(1.0), STRETCH / KAPPA, state(1 / (1 - STRETCH)))


def key_query(task):
    """cosh and sinh of theory.md, section 7, by the singular vectors of F."""
    rng = np.random.default_rng(3)
    F, W_Q, W_K = (rng.normal(size=(3, 3)) for _ in range(3))
    U, sigma, Vt = np.linalg.svd(F)
    t = 3.0 / sigma[0]
    c, s = np.cosh(sigma * t)[:, None], np.sinh(sigma * t)[:, None]
    P, R = U.T @ W_Q, Vt @ W_K
    exact = U @ (c * P + s * R), Vt.T @ (s * P + c * R)
    start = jnp.asarray(W_Q), jnp.asarray(W_K)
    return Problem(fs.flows.KeyQuery(F), start, t, jax.tree.map(jnp.asarray, exact))


def random_start(seed, scale=1.0):
    return fs.gaussian_parameters(
        jax.random.key(seed), 3, scale=scale, key_width=2, value_width=2, hidden_width=3
    )


def full(task):
    """The full model through its first stage; SciPy says where it ends."""
    from scipy.integrate import solve_ivp

    theta = random_start(1, scale=0.3)
    flow, t1 = fs.flows.Full(NET, task), 12.0
    flat, unravel = ravel_pytree(theta)
    rate = jax.jit(lambda y: ravel_pytree(flow.rate(0.0, unravel(y)))[0])
    found = solve_ivp(lambda t, y: rate(y), (0, t1), flat, method="DOP853", rtol=3e-14, atol=1e-16)
    return Problem(flow, theta, t1, unravel(jnp.asarray(found.y[:, -1])))


PROBLEMS = {"leading order": leading_order, "key-query": key_query, "full": full}


@pytest.fixture(scope="module")
def problems(task):
    return {name: make(task) for name, make in PROBLEMS.items()}


every_solver = pytest.mark.parametrize("solver", SOLVERS)


@every_solver
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_error_falls_at_the_nominal_order(name, solver, problems):
    """Slope of log error against log accepted steps; the error within 20 tolerances."""
    problem, steps, errors = problems[name], [], []
    for rtol in TOLERANCES[solver]:
        run = problem.solve(solver, rtol)
        assert run.outcome == "reached_end"
        steps.append(run.stats["accepted"])
        errors.append(distance(run.final, problem.exact))
    assert np.all(np.asarray(errors) < 20 * TOLERANCES[solver])
    assert -np.polyfit(np.log(steps), np.log(errors), 1)[0] > ORDERS[solver] - 0.3


@every_solver
@pytest.mark.parametrize("rtol", [1e-5, 1e-8])
def test_invariants_drift_by_no_more_than_tolerances(solver, rtol, problems, task):
    """theory.md, section 3: A, B, D of the leading-order flow; two matrices of the full one."""
    theta, along = random_start(2), problems["leading order"]
    run = along.solve(solver, rtol, y0=theta, t1=1.0)
    before, after = (outer(x, task.direction) for x in (theta, run.final))
    assert distance(run.final, theta) > 0.1
    for made, rows in (
        (invariants.value_invariant, (0, 1)),
        (invariants.hidden_invariant, (1, 2)),
        (invariants.norm_gap, (0, 2)),
    ):
        gap = made(*(after[i] for i in rows)) - made(*(before[i] for i in rows))
        assert float(jnp.max(jnp.abs(gap))) < 20 * rtol * size(run.final) ** 2
    problem = problems["full"]
    run = problem.solve(solver, rtol)
    for now, then in zip(conserved(run.final), conserved(problem.y0), strict=True):
        assert float(jnp.max(jnp.abs(now - then))) < 20 * rtol * size(run.final) ** 2


# Units: powers of two change no digit, so nothing in a solver knows an absolute size.


@every_solver
@pytest.mark.parametrize("power", [-36, 40])
def test_the_unit_of_time_changes_no_digit(solver, power, problems, task):
    """κ → 2^p κ, t → 2^−p t, for times from 1e-12 to 1e11."""
    problem = problems["leading order"]
    fast = fs.flows.LeadingOrder(task, KAPPA * 2.0**power)
    plain = problem.solve(solver, 1e-7)
    scaled = problem.solve(solver, 1e-7, flow=fast, t1=problem.t1 * 2.0**-power)
    assert_same(scaled.final, plain.final)
    assert scaled.stats["accepted"] == plain.stats["accepted"]


@every_solver
@pytest.mark.parametrize("power", [-20, 20])
def test_the_scale_of_the_start_changes_no_digit(solver, power, problems):
    """θ → cθ, t → t/c (theory.md, section 5: T*(cθ) = T*(θ)/c)."""
    problem, c = problems["leading order"], 2.0**power
    larger = jax.tree.map(lambda x: c * x, problem.y0)
    scaled = problem.solve(solver, 1e-7, y0=larger, t1=problem.t1 / c)
    back = jax.tree.map(lambda x: x / c, scaled.final)
    assert_same(back, problem.solve(solver, 1e-7).final)


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@every_solver
def test_the_full_flow_departs_from_leading_order_like_scale_squared(solver, problems, task):
    """theory.md, section 2, at a fixed t̄ = κεt below the blow-up."""
    flow = fs.flows.LeadingOrder(task, NET.kappa(task))
    unit, errors = random_start(1), []
    time = 0.7 * float(fs.blow_up_time(*outer(unit, task.direction)).time / NET.kappa(task))
    lead = problems["leading order"].solve(solver, 1e-9, flow=flow, y0=unit, t1=time).final
    for scale in (1e-2, 1e-3):
        small = jax.tree.map(lambda x, c=scale: c * x, unit)
        run = problems["full"].solve(solver, 1e-9, y0=small, t1=time / scale)
        normalised = jax.tree.map(lambda x, c=scale: x / c, run.final)
        pairs = zip(outer(normalised, task.direction), outer(lead, task.direction), strict=True)
        errors.append(max(distance(*pair) for pair in pairs))
    assert np.log10(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


# Symmetries of the full model


def rotated(theta, bases, inverse=False):
    """The weights in other orthonormal bases of tokens, keys and values."""
    Q, K, V = (basis.T for basis in bases) if inverse else bases
    return fs.Parameters(
        Q.T @ theta.W_Q @ K, Q.T @ theta.W_K @ K, Q.T @ theta.W_V @ V, V.T @ theta.W_1, theta.W_2
    )


@every_solver
def test_orthogonal_changes_of_basis_change_nothing(solver, problems, task):
    problem, rng = problems["full"], np.random.default_rng(0)
    bases = [np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (3, 2, 2)]
    turned = fs.Task(np.asarray(task.X) @ bases[0], task.y, name=task.name)
    start = rotated(problem.y0, bases)
    run = problem.solve(solver, 1e-9, flow=fs.flows.Full(NET, turned), y0=start)
    assert distance(rotated(run.final, bases, inverse=True), problem.exact) < 2e-8


@every_solver
def test_the_order_of_samples_tokens_and_neurons_changes_nothing(solver, problems, task):
    """Tokens but the last one, which is the query."""
    problem, rng = problems["full"], np.random.default_rng(1)
    samples, tokens, neurons = rng.permutation(task.size), np.asarray([1, 0, 2]), [2, 0, 1]
    shuffled = fs.Task(task.X[samples][:, tokens], task.y[samples], name=task.name)
    run = problem.solve(
        solver, 1e-9, flow=fs.flows.Full(NET, shuffled), y0=reordered(problem.y0, neurons)
    )
    assert distance(reordered(run.final, np.argsort(neurons)), problem.exact) < 2e-8


def reordered(theta, neurons):
    order = np.asarray(neurons)
    return eqx.tree_at(lambda p: (p.W_1, p.W_2), theta, (theta.W_1[:, order], theta.W_2[order]))

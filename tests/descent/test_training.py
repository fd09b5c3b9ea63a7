"""`train` against plain loops of the textbook formulas, with its clocks, batches and endings."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flowsim as fs
from flowsim.descent import WarmUpCosine, train
from flowsim.descent.batches import Batches

ETA = 0.05


def flat(theta):
    """All entries of one state as a vector."""
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(theta)])


def state(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


def row(run, i):
    return flat(state(run.states, i))


@pytest.fixture(scope="module")
def gradient(net, task, theta0):
    """∇L as a function of vectors."""
    leaves, structure = jax.tree.flatten(theta0)
    cuts = np.cumsum([x.size for x in leaves])[:-1]
    rate = jax.jit(lambda theta: fs.flows.Full(net, task).rate(0.0, theta))

    def of(vector):
        parts = [p.reshape(x.shape) for p, x in zip(np.split(vector, cuts), leaves, strict=True)]
        return -flat(rate(jax.tree.unflatten(structure, parts)))

    return of


@pytest.fixture(scope="module")
def descent(net, task, theta0):
    return train(net, task, theta0, learning_rate=ETA, steps=30)


def test_gradient_descent_follows_its_formula(descent, gradient, theta0):
    theta = flat(theta0)
    for k in range(31):
        np.testing.assert_allclose(row(descent, k), theta, rtol=1e-12, atol=1e-15)
        theta = theta - ETA * gradient(theta)
    assert descent.outcome == "reached_end"
    assert descent.clock == "training"
    np.testing.assert_allclose(descent.times, ETA * np.arange(31), rtol=1e-15)


def test_rates_are_minus_the_gradient_and_losses_the_loss(descent, gradient, net, task):
    for k in (0, 7, 30):
        rate = flat(state(descent.rates, k))
        np.testing.assert_allclose(rate, -gradient(row(descent, k)), rtol=1e-11, atol=1e-15)
        loss = net.loss(state(descent.states, k), task)
        assert float(descent.losses[k]) == pytest.approx(float(loss), rel=1e-13)


def test_momentum_follows_its_formula_on_its_clock(net, task, theta0, gradient):
    run = train(net, task, theta0, optimizer="momentum", learning_rate=ETA, steps=20, momentum=0.8)
    theta, m = flat(theta0), 0.0
    for k in range(21):
        np.testing.assert_allclose(row(run, k), theta, rtol=1e-12, atol=1e-15)
        m = 0.8 * m + gradient(theta)
        theta = theta - ETA * m
    np.testing.assert_allclose(run.times, ETA * np.arange(21) / 0.2, rtol=1e-14)
    assert run.rates is None


def test_adamw_follows_its_formula_and_has_no_clock(net, task, theta0, gradient):
    schedule = WarmUpCosine(5, 10, start=0.2, end=0.1)
    run = train(
        net, task, theta0, optimizer="adamw", learning_rate=ETA, steps=20, weight_decay=0.1,
        clip=1e-3, schedule=schedule,
    )  # fmt: skip
    theta, m, v = flat(theta0), 0.0, 0.0
    for k in range(21):
        np.testing.assert_allclose(row(run, k), theta, rtol=1e-11, atol=1e-14)
        g = gradient(theta)
        g = g * min(1.0, 1e-3 / np.linalg.norm(g))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        ratio = m / (1 - 0.9 ** (k + 1)) / (np.sqrt(v / (1 - 0.999 ** (k + 1))) + 1e-8)
        rising = 0.2 + 0.8 * (k + 1) / 5
        falling = 0.1 + 0.9 * (1 + np.cos(np.pi * min(1, (k - 4) / 10))) / 2
        factor = rising if k < 5 else falling
        theta = theta - ETA * factor * (ratio + 0.1 * theta)
    assert run.clock == "steps"
    np.testing.assert_array_equal(run.times, np.arange(21))


def test_a_schedule_stretches_the_clock(net, task, theta0, gradient):
    falling = lambda k: 1 / (1.0 + k.astype(float))  # noqa: E731
    run = train(net, task, theta0, learning_rate=ETA, steps=4, schedule=falling)
    np.testing.assert_allclose(run.times, ETA * np.array([0, 1, 3 / 2, 11 / 6, 25 / 12]))
    np.testing.assert_allclose(
        row(run, 2) - row(run, 1), -ETA / 2 * gradient(row(run, 1)), rtol=1e-12, atol=1e-15
    )


def test_warm_up_cosine_by_name_ends_at_zero():
    from flowsim.descent.schedules import schedule_of

    schedule = schedule_of("warm_up_cosine", 100)
    factors = [float(schedule(jnp.int32(k))) for k in (0, 9, 54, 99)]
    np.testing.assert_allclose(factors, [0.1, 1.0, 0.5, 0.0], atol=1e-12)


def test_full_batch_is_gradient_descent_to_rounding(descent, net, task, theta0):
    run = train(net, task, theta0, learning_rate=ETA, steps=30, batch_size=20)
    for k in (1, 15, 30):
        np.testing.assert_allclose(row(run, k), row(descent, k), rtol=1e-12, atol=1e-14)


def test_a_batch_step_uses_the_samples_of_its_batch(net, task, theta0):
    key = jax.random.key(3)
    run = train(net, task, theta0, learning_rate=ETA, steps=2, batch_size=6, key=key)
    samples, _ = Batches(key, 6, 20, False).draw(jnp.int32(0), jnp.arange(20))
    part = fs.Task(task.X[samples], task.y[samples])
    expected = flat(theta0) + ETA * flat(fs.flows.Full(net, part).rate(0.0, theta0))
    np.testing.assert_allclose(row(run, 1), expected, rtol=1e-12, atol=1e-15)


def dealt(batches, steps):
    """The samples of the first steps."""
    order, found = batches.order(), []
    draw = eqx.filter_jit(batches.draw)
    for k in range(steps):
        samples, order = draw(jnp.int32(k), order)
        found.append(np.asarray(samples))
    return np.asarray(found)


def test_an_epoch_without_replacement_sees_each_sample_once():
    found = dealt(Batches(jax.random.key(0), 5, 20, False), 12)
    epochs = found.reshape(3, 20)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(20))
    assert not np.array_equal(epochs[0], epochs[1])
    remainder = dealt(Batches(jax.random.key(0), 7, 20, False), 2).ravel()
    assert np.unique(remainder).size == 14


def test_batches_with_replacement_are_uniform_and_repeat_samples():
    found = dealt(Batches(jax.random.key(1), 10, 20, True), 400)
    counts = np.bincount(found.ravel(), minlength=20)
    # χ² with 19 degrees of freedom exceeds 43.8 with probability 0.001
    assert np.sum((counts - 200) ** 2 / 200) < 43.8
    assert any(np.unique(batch).size < 10 for batch in found)


def test_runs_repeat_with_their_key(net, task, theta0):
    run = lambda seed: train(  # noqa: E731
        net, task, theta0, learning_rate=ETA, steps=10, batch_size=6, key=jax.random.key(seed)
    )
    first, again, other = run(5), run(5), run(6)
    np.testing.assert_array_equal(flat(first.final), flat(again.final))
    assert not np.allclose(flat(first.final), flat(other.final))


def test_vmapped_runs_are_the_single_ones(net, task, theta0):
    keys = jax.random.split(jax.random.key(7), 3)
    arguments = {"learning_rate": ETA, "steps": 10, "batch_size": 6}
    many = jax.vmap(lambda key: train(net, task, theta0, key=key, **arguments))(keys)
    single = train(net, task, theta0, key=keys[1], **arguments)
    member = many.member(1).trim()
    assert member.outcome == "reached_end"
    np.testing.assert_allclose(flat(member.states), flat(single.states), rtol=1e-11, atol=1e-14)


def test_vmapped_divergence_is_data(net, task, theta0):
    rates = jnp.array([ETA, 1e6])
    many = jax.jit(jax.vmap(lambda eta: train(net, task, theta0, learning_rate=eta, steps=10)))
    run = many(rates)
    assert list(run.outcome.name) == ["reached_end", "non_finite"]
    np.testing.assert_array_equal(run.count[0], 11)
    np.testing.assert_array_equal(run.count[1], run.stats["diverged_at_step"][1])
    alone = train(net, task, theta0, learning_rate=1e6, steps=10)
    assert alone.stats["diverged_at_step"] == int(run.stats["diverged_at_step"][1])


def test_divergence_names_the_step(net, task, theta0, gradient):
    run = train(net, task, theta0, learning_rate=1e6, steps=50)
    assert run.outcome == "non_finite"
    assert not run.trusted
    # a plain loop that stops where the loss first exceeds a million times its start
    theta, losses = flat(theta0), []
    leaves, structure = jax.tree.flatten(theta0)
    cuts = np.cumsum([x.size for x in leaves])[:-1]
    while not losses or losses[-1] <= 1e6 * losses[0]:
        parts = map(jnp.asarray, np.split(theta, cuts))
        parts = [p.reshape(x.shape) for p, x in zip(parts, leaves, strict=True)]
        losses.append(float(net.loss(jax.tree.unflatten(structure, parts), task)))
        theta = theta - 1e6 * gradient(theta)
    assert run.stats["diverged_at_step"] == len(losses) - 1
    assert len(run) == len(losses) - 1


def test_saved_steps_and_times(net, task, theta0, descent):
    run = train(net, task, theta0, learning_rate=ETA, steps=30, save_steps=[0, 4, 11])
    np.testing.assert_array_equal(run.steps, [0, 4, 11, 30])
    np.testing.assert_array_equal(run.states.W_1[2], descent.states.W_1[11])
    run = train(net, task, theta0, learning_rate=ETA, steps=30, times=[0.21, 1.02])
    np.testing.assert_allclose(run.times, ETA * np.array([4, 20, 30]))


def test_long_runs_save_equally_spaced_rows():
    from flowsim.descent.running import save_targets

    targets = save_targets(10_000, save_steps=None, times=None, row_bytes=8, unit=None)
    assert targets[0] == 0
    assert targets[-1] == 10_000
    assert 1000 <= targets.size <= 2002
    assert np.unique(np.diff(targets)).size == 1
    few = save_targets(10_000, save_steps=None, times=None, row_bytes=2**25, unit=None)
    assert few.size <= 5


def test_no_retrace_for_a_new_rate_key_or_number_of_steps(task, theta0):
    traces = []

    def counted(z):
        traces.append(1)
        return jnp.tanh(z)

    net = fs.OneLayerTransformer(activation=counted)
    run = lambda eta, steps, seed: train(  # noqa: E731
        net, task, theta0, optimizer="momentum", learning_rate=eta, steps=steps, batch_size=6,
        momentum=0.5 + eta, key=jax.random.key(seed),
    )  # fmt: skip
    run(0.1, 5, 0)
    before = len(traces)
    run(0.2, 700, 1)
    assert len(traces) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive and finite; got 0.0"),
        ({"learning_rate": -1.0}, "learning_rate must be positive and finite; got -1.0"),
        ({"batch_size": 21}, "batch_size must be at most the number of samples, 20; got 21"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1; got 0"),
        ({"optimizer": "momentum", "momentum": 1.0}, "momentum must lie in .0, 1.; got 1.0"),
        ({"momentum": 0.5}, 'momentum must be left out unless optimizer is "momentum"; got 0.5'),
        ({"optimizer": "adam"}, "optimizer must be one of sgd, momentum, adamw .did you mean"),
        ({"steps": 0}, "steps must be an integer >= 1; got 0"),
        ({"schedule": "cosine"}, "schedule must be one of warm_up_cosine"),
        ({"save_steps": [3, 99]}, "save_steps must lie within the steps 0 to 10"),
        ({"save_steps": [3], "times": [0.1]}, "save_steps and times must not both be given"),
        ({"clip": 1.0}, 'clip must be left out unless optimizer is "adamw"'),
    ],
)
def test_bad_input_is_named_in_one_line(net, task, theta0, change, message):
    arguments = {"learning_rate": 0.1, "steps": 10} | change
    with pytest.raises(ValueError, match=message) as error:
        train(net, task, theta0, **arguments)
    assert "\n" not in str(error.value)


def test_a_key_that_is_none_is_named(net, task, theta0):
    with pytest.raises(TypeError, match=r"key must be a key, such as jax.random.key\(0\); got 3"):
        train(net, task, theta0, learning_rate=0.1, steps=2, batch_size=5, key=3)

"""Discrete descent against the flow: orders, lags, evaluations at equal accuracy, cost of a step.

    python benchmarks/descent.py [field] [orders] [accuracy] [step]

Without arguments all four parts are run. `accuracy` asks for a relative error of 1e-4 of the whole
state at the predicted blow-up time T*: the adaptive flow is run at ever smaller tolerances until
it is met; the steps of gradient descent follow from its measured first-order error, which is
shown for two learning rates. `step` compares descent steps with single gradients in turn, so that
a busy machine slows both alike.
"""

import statistics
import sys

import jax
import jax.numpy as jnp
import numpy as np
from gradient import problem, timed

import flowsim as fs
from flowsim.descent import running, stepping
from flowsim.descent.methods import method_of
from flowsim.descent.minimising import LossGradient
from flowsim.descent.schedules import Constant
from flowsim.descent.training import LossOfBatch
from flowsim.experiments.descent_comparison import DescentStudy, checked, distance, slope
from flowsim.flows import Full, Modified

TASKS = ("digits", "gaussian")
ACCURACY = 1e-4


def square(t, y, args):
    return y**2


def decay(t, y, args):
    return -y


def field() -> None:
    """y' = y² to 1e6, and ½θ² at t = 1."""
    for eta in (0.1, 0.01, 0.001):
        run = fs.descend(square, 1.0, learning_rate=eta, steps=round(2 / eta))
        first = float(run.times[np.argmax(np.asarray(run.states) >= 1e6)])
        print(f"y' = y², η = {eta:g}: 1e6 at t = {first:.4g}; {run.outcome}", end="; ")
        print(f"diverged at step {run.stats.get('diverged_at_step')}", end="; ")
        run = fs.descend(decay, 1.0, learning_rate=eta, steps=round(1 / eta))
        print(f"½θ² at t = 1: {float(run.final):.6f} (flow {np.exp(-1):.6f})")


def errors(setting, at: float, steps: int, reference) -> float:
    """Relative error of descent at one time."""
    run = fs.train(
        setting.net, setting.task, setting.theta0, learning_rate=at / steps, steps=steps,
        save_steps=[steps],
    )  # fmt: skip
    return distance(run.final, reference)


def orders() -> None:
    """Fitted orders at ¾ T*."""
    for name in TASKS:
        setting, time_star = checked(DescentStudy(task=name))
        net, task, theta0 = setting.net, setting.task, setting.theta0
        at = 0.75 * time_star
        flow = fs.integrate(Full(net, task), theta0, at, times=[at], rtol=1e-13).final
        rows = []
        for steps in (250, 500, 1000, 2000):
            eta = at / steps
            run = fs.train(net, task, theta0, learning_rate=eta, steps=steps, save_steps=[steps])
            modified = fs.integrate(
                Modified(net, task, eta), theta0, at, times=[at], rtol=1e-13
            ).final
            rows.append(
                {
                    "learning_rate": eta,
                    "flow": distance(run.final, flow),
                    "modified": distance(run.final, modified),
                }
            )
        found = {kind: f"{slope(rows, kind):.4f}" for kind in ("flow", "modified")}
        print(f"{name}: slopes {found}")


def accuracy() -> None:
    """Gradient evaluations for the same accuracy at T*."""
    for name in TASKS:
        setting, time_star = checked(DescentStudy(task=name))
        flow = Full(setting.net, setting.task)
        exact = fs.integrate(flow, setting.theta0, time_star, times=[time_star], rtol=1e-13).final
        for rtol in 10.0 ** -np.arange(2, 10):
            run = fs.integrate(flow, setting.theta0, time_star, times=[time_star], rtol=rtol)
            if distance(run.final, exact) <= ACCURACY:
                break
        evaluations = run.stats["evaluations"]
        steps = (4000, 8000)
        found = [errors(setting, time_star, k, exact) for k in steps]
        needed = steps[1] * found[1] / ACCURACY
        print(
            f"{name}: flow {evaluations} evaluations (rtol {rtol:.0e}, error "
            f"{distance(run.final, exact):.1e}); descent errors {found[0]:.2e}, {found[1]:.2e} at "
            f"{steps} steps, {needed:.0f} steps for {ACCURACY:g}: {needed / evaluations:.0f} times"
        )


def step(rounds: int = 9, steps: int = 8) -> None:
    """A descent step of the d = 640 model over one gradient."""
    flow, theta = problem(1000, 10, 640)
    gradient = jax.jit(lambda flow, theta: flow.rate(0.0, theta))
    descent = stepping.Problem(
        LossGradient(LossOfBatch(flow.net, flow.task)), method_of("sgd", theta.W_Q.dtype),
        Constant(), jnp.asarray(1e-3), None, True,
    )  # fmt: skip
    start = running._begin(descent, theta)
    # the block takes its last step after the row is saved: row steps − 1 costs `steps` gradients
    targets = np.zeros(5, np.int32)
    targets[0] = steps - 1
    calls = {
        "gradient": lambda: [gradient(flow, theta) for _ in range(steps)],
        "descent": lambda: running._block(descent, start, targets, np.int32(1)),
    }
    for call in calls.values():
        jax.block_until_ready(call())
    rows = [{name: timed(call) / steps for name, call in calls.items()} for _ in range(rounds)]
    medians = {name: statistics.median(row[name] for row in rows) for name in calls}
    ratio = statistics.median(row["descent"] / row["gradient"] for row in rows)
    print(
        f"d = 640, n = 1000: gradient {1e3 * medians['gradient']:.0f} ms, descent step "
        f"{1e3 * medians['descent']:.0f} ms, median ratio {ratio:.2f}"
    )


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parts = {"field": field, "orders": orders, "accuracy": accuracy, "step": step}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()

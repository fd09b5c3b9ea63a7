"""Discrete descent against the flow: orders, lags, evaluations at equal accuracy, cost of a step.

    python -m benchmarks.descent [--toy] [--out FOLDER]

`accuracy` asks for a relative error of 1e-4 of the whole state at the predicted blow-up time T*:
the adaptive flow is run at ever smaller tolerances until it is met; the steps of gradient descent
follow from its measured first-order error, which is shown for two learning rates. `step` compares
descent steps with single gradients in turn, so that a busy machine slows both alike.
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import flowsim as fs
from benchmarks import harness
from benchmarks.gradient import problem
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


def field() -> Iterator[harness.Row]:
    """y' = y² to 1e6, and ½θ² at t = 1."""
    for eta in (0.1, 0.01, 0.001):
        grown = fs.descend(square, 1.0, learning_rate=eta, steps=round(2 / eta))
        fallen = fs.descend(decay, 1.0, learning_rate=eta, steps=round(1 / eta))
        yield {
            "what": f"by η = {eta:g}",
            "y' = y² passes 1e6 at": float(grown.times[np.argmax(np.asarray(grown.states) >= 1e6)]),
            "½θ² at t = 1": float(fallen.final),
            "flow": float(np.exp(-1)),
        }


def errors(setting, at: float, steps: int, reference) -> float:
    """Relative error of descent at one time."""
    run = fs.train(
        setting.net, setting.task, setting.theta0, learning_rate=at / steps, steps=steps,
        save_steps=[steps],
    )  # fmt: skip
    return distance(run.final, reference)


def orders() -> Iterator[harness.Row]:
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
        found = {f"slope against {kind}": slope(rows, kind) for kind in ("flow", "modified")}
        yield {"what": f"orders, {name}"} | found


def accuracy() -> Iterator[harness.Row]:
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
        yield {
            "what": f"accuracy, {name}",
            "rtol of the flow": float(rtol),
            "evaluations of the flow": evaluations,
            "descent error, 4000 steps": found[0],
            "descent error, 8000 steps": found[1],
            "steps for 1e-4": round(needed),
            "times the flow": needed / evaluations,
        }


def step(
    sizes: tuple[int, int, int] = (1000, 10, 640), rounds: int = 9, steps: int = 8
) -> Iterator[harness.Row]:
    """A descent step over one gradient; n, s, d."""
    flow, theta = problem(*sizes)
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
    seconds = harness.medians(calls, rounds)
    yield {
        "what": "step, n = {}, s = {}, d = {}".format(*sizes),
        "gradient ms": 1e3 * seconds["gradient"] / steps,
        "step ms": 1e3 * seconds["descent"] / steps,
        "step over gradient": seconds["descent"] / seconds["gradient"],
    }


def measure(toy: bool = False) -> Iterator[harness.Group]:
    """All parts."""
    if toy:
        yield step((8, 3, 4), rounds=1)
        return
    for part in (field, orders, accuracy, step):
        yield part()


if __name__ == "__main__":
    harness.run("descent", measure, __doc__)

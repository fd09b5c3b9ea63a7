"""Predictions against simulations of the full model: errors and their order in ε, trust, cost.

    python benchmarks/prediction.py            # orders in ε (about ten minutes on two cores)
    python benchmarks/prediction.py limits     # from which ε on the errors exceed ten percent
    python benchmarks/prediction.py trust      # errors when trust ends, and after
    python benchmarks/prediction.py cost       # seconds of both at d = 64

Errors are ‖ΔW‖/‖W‖ at t − T in units of 1/κ and, for the onset, |Δt| over |onset − T|.
"""

import sys
import time

import jax
import numpy as np

from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.predict import predict
from flowsim.tasks import digits, gaussian

SCALES = (2.5e-3, 1.25e-3, 6e-4, 3e-4)
UNITS = (-2.0, -1.0, -0.5, 0.0)
ACTIVATIONS, LOSSES = ("tanh", "gelu", "identity"), ("exponential", "logistic")
#: Both solves are tighter than the smallest error that is shown.
RTOL = 1e-9


def start(width: int, scale: float):
    return gaussian_parameters(jax.random.key(0), width, scale=scale)


def relative(a, b) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def pair(net, task, scale: float, beyond: float = 0.2):
    """Prediction and simulation to a little after T and the onset."""
    theta0, unit = start(task.width, scale), 1 / float(net.kappa(task))
    prediction = predict(net, task, theta0, rtol=RTOL)
    last = max(float(prediction.blow_up.time), prediction.onset.time or 0.0)
    return prediction, simulate(net, task, theta0, t1=last + beyond * unit, rtol=RTOL)


def errors(net, task, scale: float) -> dict[str, float]:
    prediction, run = pair(net, task, scale)
    T, unit = float(prediction.blow_up.time), 1 / float(net.kappa(task))
    start_loss = float(net.loss(start(task.width, scale), task))
    found = {}
    for units in UNITS:
        a, b = (x.evaluate(T + units * unit) for x in (prediction.trajectory, run))
        found[f"W_2 {units:+g}"] = relative(a.W_2, b.W_2)
        found[f"W_Q {units:+g}"] = relative(a.W_Q, b.W_Q)
        loss, other = float(net.loss(b, task)), float(net.loss(a, task))
        found[f"loss {units:+g}"] = abs(other - loss) / (start_loss - loss)
    wait = abs(prediction.onset.time - T)
    found["onset"] = abs(prediction.onset.time - run.event_times["onset"]) / wait
    return found


def slope(scales, values) -> float:
    return float(np.polyfit(np.log(scales), np.log(values), 1)[0])


def orders() -> None:
    for task in (digits(16), gaussian()):
        for activation in ACTIVATIONS:
            for loss in LOSSES:
                net = OneLayerTransformer(activation, loss)
                rows = [errors(net, task, scale) for scale in SCALES]
                print(f"\n{task.name}, {activation}, {loss}: errors at ε = {SCALES}, slope")
                for name in rows[0]:
                    values = [row[name] for row in rows]
                    shown = "  ".join(f"{v:.1e}" for v in values)
                    print(f"  {name:12s} {shown}   {slope(SCALES, values):5.2f}", flush=True)


def limits() -> None:
    for task in (digits(16), gaussian()):
        net = OneLayerTransformer()
        print(f"\n{task.name}, tanh, exponential: largest error of W_2, W_Q up to T; onset")
        for scale in (0.2, 0.1, 0.05, 0.02, 0.01):
            found = errors(net, task, scale)
            worst = max(v for k, v in found.items() if k[:3] in ("W_2", "W_Q"))
            print(f"  ε = {scale:<5g} {worst:.1e}  {found['onset']:.1e}", flush=True)


def trust() -> None:
    task, scale = digits(16), 2.5e-3
    for activation in ("gelu", "tanh"):
        net = OneLayerTransformer(activation)
        prediction, run = pair(net, task, scale, beyond=9.0)
        wider = predict(net, task, start(16, scale), times=np.append(run.times[:1], run.times[-1:]))
        T, unit = float(prediction.blow_up.time), 1 / float(net.kappa(task))
        until = wider.trusted_until
        rates = f"λ = {wider.transverse_rate * unit:.2f} κ, σ₁ = {wider.growth_rate * unit:.2f} κ"
        print(f"\ndigits, {activation}, exponential, ε = {scale}: {rates}")
        print(f"  trusted until T + {(until - T) / unit:.2f}/κ")
        times = np.append(T + np.arange(0, 9.1) * unit, until)
        times = np.sort(times[times <= run.times[-1]])
        whole = predict(net, task, start(16, scale), times=np.append(0.0, times)).trajectory
        for t in times:
            a, b = whole.evaluate(t), run.evaluate(t)
            mark = "  <- trust ends" if t == until else ""
            print(
                f"  T + {(t - T) / unit:5.2f}/κ  W_2 {relative(a.W_2, b.W_2):.1e}  "
                f"W_Q {relative(a.W_Q, b.W_Q):.1e}{mark}",
                flush=True,
            )


def cost() -> None:
    for task in (digits(64), gaussian(width=64)):
        net, theta0 = OneLayerTransformer(), start(64, 6e-4)
        calls = {
            "simulate": lambda: simulate(net, task, theta0),  # noqa: B023
            "predict": lambda: predict(net, task, theta0),  # noqa: B023
            "separated": lambda: predict(net, task, theta0, separated=True),  # noqa: B023
        }
        seconds = {}
        for call in calls.values():
            call()
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            seconds[name] = time.perf_counter() - began
        shares = {k: v / seconds["simulate"] for k, v in seconds.items()}
        print(f"\n{task.name}, d = 64, tanh, exponential, ε = 6e-4 (compiled):")
        for name in calls:
            print(f"  {name:10s} {seconds[name]:7.2f} s  {shares[name]:.2f}", flush=True)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    wanted = sys.argv[1:] or ["orders"]
    for name in wanted:
        {"orders": orders, "limits": limits, "trust": trust, "cost": cost}[name]()


if __name__ == "__main__":
    main()

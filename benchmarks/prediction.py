"""Predictions against simulations of the full model: errors and their order in ε, trust, cost.

    python -m benchmarks.prediction [orders] [limits] [trust] [cost] [--only WORD] [--toy]

`orders`: slopes in ε of the errors, twelve cases (about ten minutes on two cores; `--only gelu`
does the cases with that word and keeps the others' rows). `limits`: from which ε on the errors
exceed ten percent. `trust`: errors until trust ends, and after. `cost`: seconds of both at d = 64.

Errors are ‖ΔW‖/‖W‖ at t − T in units of 1/κ and, for the onset, |Δt| over |onset − T|.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import harness
from flowsim import storage
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer, gaussian_parameters
from flowsim.predict import predict
from flowsim.tasks import Task, digits, gaussian

Row = dict[str, Any]
ACTIVATIONS, LOSSES = ("tanh", "gelu", "identity"), ("exponential", "logistic")
SCALES = (2.5e-3, 1.25e-3, 6e-4, 3e-4)
LARGE_SCALES = (0.2, 0.1, 0.05, 0.02, 0.01)
UNITS = (-2.0, -1.0, -0.5, 0.0)
#: Both solves are tighter than the smallest error that is shown.
RTOL = 1e-9
#: The scale at which errors are shown, and what slopes and the error of the onset must reach.
SHOWN, LEAST_SLOPE, LEAST_ONSET_SLOPE, LARGEST_ONSET_ERROR = 6e-4, 0.85, 0.8, 0.02


def tasks(toy: bool, width: int = 16) -> dict[str, Task]:
    if toy:
        return {"gaussian": gaussian(60, 4, 4)}
    return {"digits": digits(width), "gaussian": gaussian(width=width)}


def start(width: int, scale: float) -> Any:
    return gaussian_parameters(jax.random.key(0), width, scale=scale)


def relative(a: Any, b: Any) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def pair(net: Any, task: Task, scale: float, beyond: float = 0.2) -> tuple[Any, Any]:
    """Prediction and simulation to a little after T and the onset."""
    theta0, unit = start(task.width, scale), 1 / float(net.kappa(task))
    prediction = predict(net, task, theta0, rtol=RTOL)
    last = max(float(prediction.blow_up.time), prediction.onset.time or 0.0)
    return prediction, simulate(net, task, theta0, t1=last + beyond * unit, rtol=RTOL)


def errors(net: Any, task: Task, scale: float) -> dict[str, float | None]:
    """At fixed t − T and of the onset; None for an onset that did not happen on both sides."""
    prediction, run = pair(net, task, scale)
    T, unit = float(prediction.blow_up.time), 1 / float(net.kappa(task))
    start_loss = float(net.loss(start(task.width, scale), task))
    found: dict[str, float | None] = {}
    for units in UNITS:
        if T + units * unit <= 0:  # a start as large as that has hardly a stage 1
            continue
        a, b = (x.evaluate(T + units * unit) for x in (prediction.trajectory, run))
        found[f"W_2 {units:+g}"] = relative(a.W_2, b.W_2)
        found[f"W_Q {units:+g}"] = relative(a.W_Q, b.W_Q)
        loss, other = float(net.loss(b, task)), float(net.loss(a, task))
        found[f"loss {units:+g}"] = abs(other - loss) / (start_loss - loss)
    expected, onset = prediction.onset.time, run.event_times.get("onset")
    both = expected is not None and onset is not None
    found["onset"] = abs(expected - onset) / abs(expected - T) if both else None
    return found


def weight_errors(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name[:3] in ("W_2", "W_Q")}


def slope(values: Iterable[float]) -> float:
    return float(np.polyfit(np.log(SCALES), np.log(list(values)), 1)[0])


def orders(toy: bool, only: str = "") -> Iterable[Row]:
    """Fitted slopes of the errors in ε, and errors at ε = 6e-4."""
    for (name, task), activation, loss in product(tasks(toy).items(), ACTIVATIONS, LOSSES):
        case = f"{name} {activation} {loss}"
        if only in case and not (toy and case != "gaussian tanh logistic"):
            net = OneLayerTransformer(activation, loss)
            yield {"case": case} | order_row([errors(net, task, scale) for scale in SCALES])


def order_row(found: list[dict[str, Any]]) -> Row:
    names = [*weight_errors(found[0]), "onset"]
    slopes = {name: slope(row[name] for row in found) for name in names}
    shown = found[SCALES.index(SHOWN)]
    met = (
        min(weight_errors(slopes).values()) >= LEAST_SLOPE
        and slopes["onset"] >= LEAST_ONSET_SLOPE
        and shown["onset"] <= LARGEST_ONSET_ERROR
    )
    errors = {f"error of {name}": shown[name] for name in ("W_2 +0", "W_Q +0", "loss +0", "onset")}
    return {f"slope of {k}": round(v, 3) for k, v in slopes.items()} | errors | {"met": bool(met)}


def limits(toy: bool, only: str = "") -> Iterable[Row]:
    """The largest error up to T at large scales, and where it passes ten percent."""
    for (name, task), activation in product(tasks(toy).items(), ("tanh", "gelu")):
        net, rows = OneLayerTransformer(activation), []
        for scale in LARGE_SCALES:
            found = errors(net, task, scale)
            prediction = predict(net, task, start(task.width, scale))
            row = {"case": f"{name} {activation} exponential", "scale": scale}
            row |= {"small parameter": prediction.match.small, "onset": found["onset"]}
            rows.append(row | {"weights": max(weight_errors(found).values())})
        limit = crossing(LARGE_SCALES, [row["weights"] for row in rows], 0.1)
        yield from (row | {"ten percent from": limit} for row in rows)


def crossing(scales: Iterable[float], values: Iterable[float], level: float) -> float | None:
    """The scale from which on an error exceeds a level, linear between logarithms."""
    order = np.argsort(list(scales))
    x, y = np.log(list(scales))[order], np.log(np.array(list(values)) / level)[order]
    above = np.flatnonzero(y > 0)
    if above.size == 0:
        return None
    i = max(int(above[0]), 1)
    return float(np.exp(x[i - 1] - y[i - 1] * (x[i] - x[i - 1]) / (y[i] - y[i - 1])))


def trust(toy: bool, only: str = "") -> Iterable[Row]:
    """What predictions say of their trust, against errors before and after (κ = 1)."""
    name, task = next(iter(tasks(toy).items()))
    for activation, scale in product(("gelu", "tanh"), (2.5e-3, SHOWN)):
        if only in f"{name} {activation}":
            row = {"case": f"{name} {activation} exponential", "scale": scale}
            yield row | trust_row(OneLayerTransformer(activation), task, scale)


def trust_row(net: Any, task: Task, scale: float, units: float = 15.0) -> Row:
    theta0, unit = start(task.width, scale), 1 / float(net.kappa(task))
    T = float(predict(net, task, theta0).blow_up.time)
    times = T + np.linspace(-2, units, 171) * unit
    prediction = predict(net, task, theta0, times=np.append(0.0, times), rtol=RTOL)
    run = simulate(net, task, theta0, t1=times[-1], rtol=RTOL)
    trusted = times <= prediction.trusted_until
    row = {
        "λ": prediction.transverse_rate * unit,
        "σ₁": prediction.growth_rate and prediction.growth_rate * unit,
        "trusted until": (prediction.trusted_until - T) / unit if not trusted.all() else None,
    }
    a, b = prediction.trajectory.evaluate(times), run.evaluate(times)
    for name in ("W_2", "W_Q"):
        pairs = zip(getattr(a, name), getattr(b, name), strict=True)
        found = np.array([relative(x, y) for x, y in pairs])
        row[f"{name} while trusted"] = float(found[trusted].max())
        row[f"{name} after"] = float(found[~trusted].max()) if not trusted.all() else None
    return row


def cost(toy: bool, only: str = "", rounds: int = 3) -> Iterable[Row]:
    """Seconds of one run at d = 64, compiled."""
    for name, task in tasks(toy, 64).items():
        if only in name:
            net, theta0 = OneLayerTransformer(), start(task.width, SHOWN)
            calls: dict[str, Callable[[], Any]] = {
                "simulate": lambda: simulate(net, task, theta0).states,  # noqa: B023
                "predict": lambda: predict(net, task, theta0).trajectory.states,  # noqa: B023
                "separated": lambda: (
                    predict(net, task, theta0, separated=True).trajectory.states  # noqa: B023
                ),
            }
            found = harness.medians(calls, rounds)
            shares = {
                f"{k} over simulate": found[k] / found["simulate"] for k in ("predict", "separated")
            }
            yield {"case": f"{name} d = {task.width} tanh exponential", **found, **shares}


def kept(file: Path, only: str) -> list[Row]:
    """Rows of an earlier result that are not done again."""
    if not only or not file.exists():
        return []
    return [row for row in storage.read_json(file)["rows"] if only not in row["case"]]


def groups(rows: Iterable[Row]) -> Iterable[harness.Group]:
    """Every case is a group of its own."""
    return ([row] for row in rows)


def main() -> None:
    modes = {"orders": orders, "limits": limits, "trust": trust, "cost": cost}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modes", nargs="*", help=f"of {', '.join(modes)}; all if not given")
    parser.add_argument("--only", default="", help="cases with this word; other rows are kept")
    parser.add_argument("--toy", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no row after these")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore", UserWarning)
    folder = options.out or harness.RESULTS
    if unknown := set(options.modes) - set(modes):
        parser.error(f"modes must be of {', '.join(modes)}; got {', '.join(unknown)}")
    for mode in options.modes or modes:
        rows = kept(folder / f"prediction_{mode}.json", options.only)
        for row in harness.collected(
            groups(modes[mode](options.toy, options.only)), options.seconds
        ):
            rows.append(row)
            print(row, flush=True)
        rows.sort(key=lambda row: row.get("case", "~"))
        if not options.toy or options.out:
            print(harness.save(f"prediction_{mode}", rows, folder, __doc__.strip()))


if __name__ == "__main__":
    main()

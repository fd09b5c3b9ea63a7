"""Both stages on a text: the theory on windows of a file that the user gives."""

import warnings

import jax

from flowsim.compare import compare
from flowsim.experiments.paper.finding import Finding, claim
from flowsim.experiments.paper.laboratory import Laboratory
from flowsim.integrate import simulate
from flowsim.network import OneLayerTransformer
from flowsim.predict import Caution, predict
from flowsim.report import figures

#: The largest relative difference of predicted and simulated blow-up that counts as agreement.
TOLERANCE = 0.05


def figure(lab: Laboratory) -> Finding:
    """Predicted and simulated stages on windows of bytes, labelled by whether a space follows."""
    preset, net, task = lab.preset, OneLayerTransformer(), lab.text_task
    theta0 = jax.tree.map(lambda W: preset.scales[0] * W, lab.unit_start())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)  # they stand in the notes
        prediction = predict(net, task, theta0)
    run = simulate(net, task, theta0)
    found = compare(run, prediction)
    events = {name: getattr(found, name) for name in ("blow_up", "onset")}
    error = events["blow_up"].relative_error
    claims = [
        claim(f"the blow-up comes where it is predicted, to {TOLERANCE:.0%}",
              error is not None and error < TOLERANCE, error),
        claim("stage 2 begins after the blow-up",
              run.event_times.get("onset", 0) > run.event_times.get("escape", float("inf")),
              dict(run.event_times)),
    ]  # fmt: skip
    rows = [
        {
            "event": name,
            "predicted": e.predicted,
            "simulated": e.simulated,
            "error": e.relative_error,
        }
        for name, e in events.items()
    ]
    T = float(prediction.blow_up.time)
    picture = figures.two_stage_overview(
        run, net, task, blow_up_time=T, predicted=prediction.trajectory
    )
    notes = f"{task!r}, windows of bytes, label: a space follows; ε = {preset.scales[0]:g}."
    notes += "".join(f" Caution: {line}." for line in prediction.cautions.values())
    return Finding(claims, rows, picture, notes)

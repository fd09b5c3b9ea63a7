"""`predict`: both stages from the data and the initial weights, without a fit."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from flowsim import checks
from flowsim.blow_up import BlowUp, blow_up_time
from flowsim.flows import LeadingOrder, key_query_matrix
from flowsim.flows.leading_order import outer
from flowsim.integrate import integrate
from flowsim.network import OneLayerTransformer, Parameters
from flowsim.observables.norms import frobenius
from flowsim.predict.cautions import Caution, cautions
from flowsim.predict.composite import composite
from flowsim.predict.key_query import Growth, growth_of, onset_estimate
from flowsim.predict.match import Match, drive, matched_start
from flowsim.predict.onset import condensed_run
from flowsim.predict.plateau import Plateau, find_plateau
from flowsim.predict.separated import separated_run
from flowsim.predict.span import span_of
from flowsim.predict.transverse import Transverse, transverse_flow
from flowsim.tasks import Task
from flowsim.trajectory import Trajectory

#: Tolerance of the solves: well below the error of the theory, which is of order ε.
RTOL = 1e-7
#: Where there is no blow-up the prediction is stage 1 for this many units 1/(κ ε).
WITHOUT_BLOW_UP = 10.0


class Onset(eqx.Module):
    """When stage 2 begins, in training time; `time` is None where it does not before the end."""

    time: float | None


class Prediction(eqx.Module):
    """What the theory says of a run before it is made. All times are training times.

    Attributes:
        blow_up: T with its bounds (the unit-rate values over κ), verdict and directions n, m.
        plateau: whether stage 1 ends on one, its loss and its β*.
        onset: crossover of the relative rates of attention and outer matrices.
        onset_norm: ‖W_Q‖ has doubled.
        growth: σ₁ and σ₁ − σ₂ of F(β*); None without a plateau.
        onset_asymptotic: T + (1/σ₁) ln(1/ε), when keys and queries of root mean square ε would
            reach one; None without growth on a plateau. `onset_estimate` takes other levels.
        trajectory: weights along both stages, with the events of a simulation.
        match: where the condensed network takes over; None without blow-up.
        transverse: perturbations off the condensed network along the prediction; None without
            blow-up.
        net, task: what it is a prediction for.
    """

    blow_up: BlowUp
    plateau: Plateau
    onset: Onset
    onset_norm: Onset
    growth: Growth | None
    onset_asymptotic: float | None
    trajectory: Trajectory
    match: Match | None
    transverse: Transverse | None
    net: OneLayerTransformer
    task: Task

    @property
    def growth_rate(self) -> float | None:
        """σ₁ of F at the plateau: keys and queries grow like e^{σ₁t}; None without a plateau."""
        return None if self.growth is None else self.growth.rate

    @property
    def collapse_rate(self) -> float | None:
        """σ₁ − σ₂: how fast they collapse to rank one; None without a plateau."""
        return None if self.growth is None else self.growth.collapse_rate

    @property
    def transverse_rate(self) -> float | None:
        """λ, the largest growth rate of perturbations off the condensed network from T on."""
        return None if self.transverse is None else self.transverse.rate

    @property
    def trusted_until(self) -> float:
        """The time until which the prediction errs by about ε alone; infinite where that is to
        its end. Afterwards what the start left off the condensed network has grown too large."""
        return 0.0 if self.transverse is None else self.transverse.trusted_until

    @property
    def cautions(self) -> dict[str, str]:
        """Name → one line for what takes something from this prediction; mostly empty.

        `no_blow_up`, `large_start` (ε too large for the theory), `no_plateau` (separable mean
        tokens), `no_growth` (F = 0), `tied` (σ₁ − σ₂ small), `no_onset` (none before the end).
        `predict` warns of each.
        """
        return cautions(
            small=None if self.match is None else self.match.small,
            plateau=self.plateau,
            growth=self.growth,
            onset=self.onset.time,
        )

    def __repr__(self) -> str:
        blow_up = self.blow_up
        onset, onset_norm, until = (
            "none" if t is None else f"{t:.6g}"
            for t in (self.onset.time, self.onset_norm.time, self.trusted_until)
        )
        return (
            f"Prediction(T={float(blow_up.time):.6g} ({blow_up.verdict}), {self.plateau}, "
            f"onset={onset}, onset_norm={onset_norm}, growth={self.growth}, "
            f"trusted_until={until}, {self.trajectory})"
        )


def predict(
    net: OneLayerTransformer,
    task: Task,
    theta0: Parameters,
    *,
    times: Any = None,
    separated: bool = False,
    rtol: Any = RTOL,
) -> Prediction:
    """Both stages of the gradient flow from theta0, without simulating the full model.

    Stage 1 is the leading-order flow and its exact blow-up time (theory.md, sections 4 and 5);
    stage 2 the condensed network with its d + 2m + 2dk unknowns (section 6). The error against
    `simulate` is of order ε until `trusted_until`.

    Args:
        times: where the predicted trajectory is wanted, increasing, in training time from 0 on; by
            default the steps of the solves, to the end that a simulation has.
        separated: to first order in the attention: outer weights at the start's attention, keys and
            queries by their linear flow (section 7). Much cheaper, the same up to the onset, and
            wrong where stage 2 saturates.
        rtol: relative tolerance of the solves.

    Warns:
        Caution: each of `Prediction.cautions`.

    Raises:
        ValueError, TypeError: arguments that break a rule.
        RuntimeError: double precision is off.
    """
    net, task, theta0, times = _checked(net, task, theta0, times)
    unit_rate = blow_up_time(*outer(theta0, net.direction(task)))
    blow_up = in_training_time(unit_rate, float(net.kappa(task)))
    by = drive(net, task, theta0)
    T = float(blow_up.time)
    trajectory, match, transverse = _stages(net, task, theta0, by, T, times, separated, rtol)
    plateau = find_plateau(net, task)
    growth = plateau_growth(net, task, theta0, plateau)
    asymptotic = None
    if growth is not None and growth.rate > 0:
        asymptotic = onset_estimate(T, _attention_scale(theta0), 1.0, growth)
    prediction = Prediction(
        blow_up=blow_up,
        plateau=plateau,
        onset=Onset(trajectory.event_times.get("onset")),
        onset_norm=Onset(trajectory.event_times.get("onset_norm")),
        growth=growth,
        onset_asymptotic=asymptotic,
        trajectory=trajectory,
        match=match,
        transverse=transverse,
        net=net,
        task=task,
    )
    for line in prediction.cautions.values():
        warnings.warn(line, Caution, stacklevel=2)
    return prediction


def _stages(
    net: Any, task: Any, theta0: Any, by: Any, T: float, times: Any, separated: bool, rtol: Any
) -> tuple[Trajectory, Any, Any]:
    """The composite trajectory with its match and transverse flow, or stage 1 alone."""
    if not (np.isfinite(by.blow_up_time) and np.isfinite(T)):
        return _stage_1_alone(net, task, theta0, times, rtol), None, None
    wanted = 0.0 if times is None else float(times[-1])
    span = span_of(task)
    stage_1, match = matched_start(net, task, theta0, by, span, rtol)
    run_on, inside = separated_run if separated else condensed_run, span.task(task)
    condensed = run_on(net, inside, theta0, match, T, wanted, rtol)
    transverse = transverse_flow(net, inside, condensed, match.manifold, match.switch_time, T)
    return composite(stage_1, condensed, match, transverse, T, times), match, transverse


def in_training_time(blow_up: BlowUp, kappa: float) -> BlowUp:
    """Times of the unit-rate flow over κ."""
    scaled = [np.asarray(x) / kappa for x in (blow_up.time, blow_up.lower, blow_up.upper)]
    return eqx.tree_at(lambda b: (b.time, b.lower, b.upper), blow_up, tuple(scaled))


def plateau_growth(
    net: OneLayerTransformer, task: Task, theta0: Parameters, plateau: Plateau
) -> Growth | None:
    """σ₁ and σ₁ − σ₂ of F(β*)  [CL 15]; None without a plateau."""
    if plateau.beta is None:
        return None
    k = theta0.W_Q.shape[1]
    F = key_query_matrix(net, task, plateau.beta, key_width=k)
    tokens = jnp.max(jnp.linalg.norm(task.X, axis=2))
    size = float(abs(net.slope) * tokens**3 * jnp.linalg.norm(plateau.beta) / k**0.5)
    return growth_of(F, size)


def _attention_scale(theta0: Parameters) -> float:
    """Root mean square entry of W_Q and W_K."""
    total = frobenius(theta0.W_Q) ** 2 + frobenius(theta0.W_K) ** 2
    return float(jnp.sqrt(total / (2 * theta0.W_Q.size)))


def _stage_1_alone(net: Any, task: Any, theta0: Parameters, times: Any, rtol: Any) -> Trajectory:
    """Without blow-up: the leading-order flow, to the last time wanted or for a while."""
    kappa = float(net.kappa(task))
    scale = float(theta0.scale)
    end = WITHOUT_BLOW_UP / (kappa * scale) if scale > 0 else 1 / kappa
    end = end if times is None else float(times[-1])
    flow = LeadingOrder(task, kappa, net.direction(task))
    return integrate(flow, theta0, max(end, 1e-300), times=times, rtol=rtol)


def _checked(net: Any, task: Any, theta0: Any, times: Any) -> tuple[Any, Any, Any, Any]:
    """The arguments in double precision."""
    checks.double_precision("predict")
    for name, value, kind in (
        ("net", net, OneLayerTransformer),
        ("task", task, Task),
        ("theta0", theta0, Parameters),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}; got {checks.shown(value)}")
    if checks.is_traced(task, theta0, times):
        raise TypeError("predict must be called from Python, not under a JAX transformation")
    checks.same_size("axis 0 of W_Q", theta0.width, "a token of the task", task.width)
    task, theta0 = jax.tree.map(lambda x: x.astype(jnp.float64), (task, theta0))
    if times is not None:
        times = np.asarray(checks.array("times", times, ndim=1), np.float64)
        if np.any(np.diff(times) <= 0) or times[0] < 0:
            raise checks.fail("times", "increase strictly from 0 or later", times)
    return net, task, theta0, times

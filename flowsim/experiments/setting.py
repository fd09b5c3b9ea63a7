"""What a run is: task, network and start of a configuration."""

import dataclasses

import jax

from flowsim import checks
from flowsim.blow_up import BlowUp, blow_up_time
from flowsim.experiments.sources import task_of
from flowsim.flows.leading_order import outer
from flowsim.integrate.solvers import solver_of
from flowsim.network import OneLayerTransformer, Parameters, gaussian_parameters
from flowsim.tasks import Task


@dataclasses.dataclass(frozen=True)
class TwoStage:
    """What a run is: data, network, start and solver.

    `width` is the token width d; the other widths equal it unless given. `rate` γ replaces
    `scale` ε by d^(−γ). `t1` is in training time; without it the run ends after stage 2.
    """

    task: str = "digits"
    scale: float | None = None
    rate: float | None = None
    width: int = 16
    key_width: int | None = None
    value_width: int | None = None
    hidden_width: int | None = None
    seed: int = 0
    activation: str = "tanh"
    loss: str = "exponential"
    attention: str = "softmax"
    solver: str = "dopri8"
    rtol: float = 1e-8
    max_steps: int = 100_000
    t1: float | None = None


#: The scales of a run: the weights' cubes stay in the range of the numbers.
SCALES = (1e-100, 1e100)


class Setting:
    """Task, network and start of a configuration, checked before anything is written."""

    def __init__(self, config: TwoStage):
        self.config = config
        _check_solve(config)
        self.task: Task = task_of(config.task, config.width)
        self.net = OneLayerTransformer(config.activation, config.loss, config.attention)
        self.scale = checks.positive("scale", scale_of(config, self.task.width))
        checks.between("scale", self.scale, *SCALES)
        self.theta0: Parameters = gaussian_parameters(
            jax.random.key(checks.seed("seed", config.seed)),
            self.task.width,
            scale=self.scale,
            key_width=config.key_width,
            value_width=config.value_width,
            hidden_width=config.hidden_width,
        )

    @property
    def resolved(self) -> TwoStage:
        """The configuration with the scale that it leaves to its default, and the task's width."""
        scale = self.scale if self.config.rate is None else None
        return dataclasses.replace(self.config, scale=scale, width=self.task.width)

    @property
    def kappa(self) -> float:
        """κ, the rate of stage 1."""
        return float(self.net.kappa(self.task))

    def blow_up(self) -> BlowUp:
        """Blow-up of the leading-order flow from this start, in its unit-rate time."""
        return blow_up_time(*outer(self.theta0, self.net.direction(self.task)))


def scale_of(config: TwoStage, width: int) -> float:
    """ε of the start: `scale`, or d^(−γ) from `rate`; 1e-2 without either."""
    if config.rate is None:
        return 1e-2 if config.scale is None else config.scale
    if config.scale is not None:
        raise checks.fail("scale", "not be given together with rate", config.scale)
    return float(width) ** -checks.positive("rate", config.rate)


def _check_solve(config: TwoStage) -> None:
    """The solver's settings, before anything is computed or written."""
    solver_of(config.solver, checks.between("rtol", config.rtol, 1e-14, 1e-1))
    checks.integer("max_steps", config.max_steps)
    if config.t1 is not None:
        checks.positive("t1", config.t1)

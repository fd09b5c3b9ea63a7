"""What a descent leaves behind: a `Trajectory` that knows what was descended."""

from typing import Any

import equinox as eqx

from flowsim.trajectory import Trajectory


class Origin:
    """The network and the task of a descent, carried beside its data and compared by identity."""

    def __init__(self, net: Any, task: Any):
        self.net = net
        self.task = task


class Descent(Trajectory):
    """The states of a discrete descent at its saved steps; in all else a `Trajectory`.

    Attributes:
        losses: of the batch at the saved steps (the full loss without mini-batches), or None.
        steps: the saved steps.
        origin: network and task, where they are known.
    """

    losses: Any
    steps: Any
    origin: Origin | None = eqx.field(static=True)

    def __init__(
        self, *args: Any, steps: Any, losses: Any = None, origin: Origin | None = None, **rest: Any
    ):
        super().__init__(*args, **rest)
        self.steps = steps
        self.losses = losses
        self.origin = origin

"""Commands that stop where they would begin to compute: their input was accepted."""

from typing import Any

from flowsim.blow_up import blow_up_time
from flowsim.experiments import cases, descent_comparison, two_stage
from flowsim.experiments import census as census_module
from flowsim.experiments.paper import registry


class ComputingError(BaseException):
    """The input was accepted."""


def stop(*args: Any, **kwargs: Any) -> None:
    """In place of a computation."""
    raise ComputingError


def stop_at_computing(monkeypatch: Any) -> None:
    """A few blow-up times of width two are computed, which is cheap; all else is stopped."""
    solved = []

    def few(W_v: Any, W_1: Any, W_2: Any) -> Any:
        solved.append(1)
        if W_v.shape != (2,) or W_2.shape != (2,) or len(solved) % 4 == 0:
            stop()
        return blow_up_time(W_v, W_1, W_2)

    monkeypatch.setattr(two_stage, "solved", stop)
    monkeypatch.setattr(descent_comparison, "compute", stop)
    monkeypatch.setattr(census_module, "ensemble", stop)
    monkeypatch.setattr(cases, "blow_up_time", few)
    figures = {name: (about, stop) for name, (about, _) in registry.FIGURES.items()}
    monkeypatch.setattr(registry, "FIGURES", figures)

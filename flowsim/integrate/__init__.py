"""Adaptive integration with events: the one place that steps a solver."""

from flowsim.integrate.events import Event as Event
from flowsim.integrate.simulate import simulate as simulate
from flowsim.integrate.solve import integrate as integrate

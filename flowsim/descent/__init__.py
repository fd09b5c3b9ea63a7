"""Discrete optimisers that return a `Trajectory`."""

from flowsim.descent.euler import descend as descend
from flowsim.descent.minimising import minimise as minimise
from flowsim.descent.record import Descent as Descent
from flowsim.descent.schedules import WarmUpCosine as WarmUpCosine
from flowsim.descent.stochastic import diffuse as diffuse
from flowsim.descent.training import train as train

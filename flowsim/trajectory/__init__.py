"""The record of a run: saved states, events, outcome; interpolation and netCDF."""

from flowsim.trajectory.record import Trajectory as Trajectory
from flowsim.trajectory.structure import register_state as register_state

"""Discrete optimisers that return a `Trajectory`."""

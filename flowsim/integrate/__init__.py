"""Adaptive integration with events: the one place that steps a solver."""

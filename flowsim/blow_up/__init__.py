"""Blow-up times of the leading-order flow and of any vector field."""

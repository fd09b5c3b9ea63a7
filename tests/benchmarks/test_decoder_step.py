"""The benchmark of a decoder's step at toy size, and its count of operations against XLA's."""

import jax
import pytest

from benchmarks import decoder_step, harness
from flowsim.network import Decoder
from flowsim.network.decoder import gaussian_layers


def test_the_benchmark_runs_at_toy_size():
    rows = list(harness.collected(decoder_step.measure(toy=True)))
    assert [row["products by"] for row in rows] == ["JAX", "NumPy"]
    assert all(row["share"] > 0 for row in rows)


def test_operations_are_those_that_the_compiler_counts():
    """Without an activation what is left beside products is small at these sizes."""
    n, s, d, m, V = 4, 16, 64, 128, 50
    net = Decoder(V, d, key=jax.random.key(0), activation="identity", residual=True)
    theta = gaussian_layers(jax.random.key(1), d, scale=0.1, hidden_width=m, layers=2)
    tokens = jax.numpy.zeros((n, s), jax.numpy.int32)
    counted = jax.jit(net.__call__).lower(theta, tokens).compile().cost_analysis()["flops"]
    assert counted == pytest.approx(decoder_step.step_flops(n, s, d, m, V) / 3, rel=0.05)

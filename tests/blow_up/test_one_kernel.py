"""Small programs as one kernel: what is refused for one shape leaves the others alone."""

from contextlib import nullcontext

import jax
import numpy as np

from flowsim.blow_up import one_kernel as module


def test_a_refused_shape_is_compiled_as_usual_and_no_other(monkeypatch):
    traced, marked = [], []

    def double(x):
        traced.append(x.shape)
        if traced == [(2,)]:
            raise jax.errors.JaxRuntimeError("refused")
        return 2 * x

    def mark(**_):
        marked.append(traced[-1:])
        return nullcontext()

    monkeypatch.setattr(module, "set_xla_metadata", mark)
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    call = module.one_kernel(double)
    for size in (2, 3, 2, 3):
        np.testing.assert_array_equal(call(np.ones(size)), np.full(size, 2.0))
    assert traced == [(2,), (2,), (3,)]
    assert len(marked) == 2  # the attempt at (2,), and (3,)


def test_large_arguments_are_not_marked(monkeypatch):
    monkeypatch.setattr(module, "set_xla_metadata", None)
    call = module.one_kernel(lambda x, y: x + y)
    assert call(np.ones(module.LARGEST + 1), 1.0).sum() == 2 * (module.LARGEST + 1)

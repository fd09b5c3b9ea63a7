"""One small model for all tests of descent, so that each compiled step serves many tests."""

import jax
import pytest

import flowsim as fs


@pytest.fixture(scope="session")
def net():
    return fs.OneLayerTransformer()


@pytest.fixture(scope="session")
def task():
    return fs.tasks.gaussian(samples=20, length=3, width=4)


@pytest.fixture(scope="session")
def theta0():
    return fs.gaussian_parameters(jax.random.key(1), 4, scale=0.3)

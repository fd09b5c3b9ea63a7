"""Argument checks name the argument, the rule and the value."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowsim import checks


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int8(2), Fraction(2), np.array(2), jnp.asarray(2)]
)
def test_number_accepts_real_scalars(value):
    assert checks.number("x", value) == 2.0
    assert type(checks.number("x", value)) is float


@pytest.mark.parametrize("value", [True, "2", None, [2.0], 2j])
def test_number_refuses_other_types(value):
    with pytest.raises(TypeError, match=r"^x must be a real number; got"):
        checks.number("x", value)


@pytest.mark.parametrize(
    "value",
    [math.nan, np.ones(2), np.array(1j), jnp.ones(1), 10**400, np.array("a"), jax.random.key(0)],
)
def test_number_refuses_other_values(value):
    with pytest.raises(ValueError, match=r"^x must be a (real )?(scalar|number)"):
        checks.number("x", value)


@pytest.mark.parametrize("value", [0, -1, math.inf, -0.0])
def test_positive(value):
    assert checks.positive("x", 1e-300) == 1e-300
    with pytest.raises(ValueError, match=r"^x must be positive and finite; got"):
        checks.positive("x", value)


@given(st.floats(-2, 3), st.booleans(), st.booleans())
def test_between(value, low_closed, high_closed):
    inside = 0 < value < 1 or (value == 0 and low_closed) or (value == 1 and high_closed)
    closed = (low_closed, high_closed)
    if inside:
        assert checks.between("x", value, 0, 1, closed=closed) == value
    else:
        interval = f"{'(['[low_closed]}0, 1{')]'[high_closed]}"
        with pytest.raises(ValueError, match="x must lie in ") as caught:
            checks.between("x", value, 0, 1, closed=closed)
        assert interval in str(caught.value)


@pytest.mark.parametrize("end", [0, 1])
def test_between_at_its_ends(end):
    assert checks.between("x", end, 0, 1, closed=(True, True)) == end
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        checks.between("x", end, 0, 1)


def test_integer():
    assert checks.integer("x", np.int16(3)) == 3
    assert type(checks.integer("x", np.int16(3))) is int
    assert checks.integer("x", 0, low=0) == 0
    with pytest.raises(ValueError, match="x must be an integer >= 1; got 0"):
        checks.integer("x", 0)
    with pytest.raises(ValueError, match="x must be an integer <= 2147483647; got 2147483648"):
        checks.integer("x", 2**31)
    assert checks.seed("x", 2**63 - 1) == 2**63 - 1
    with pytest.raises(ValueError, match="x must be an integer <= 9223372036854775807; got"):
        checks.seed("x", 2**63)
    with pytest.raises(ValueError, match="x must be an integer >= 0; got -1"):
        checks.seed("x", -1)
    for value in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match="x must be an integer; got"):
            checks.integer("x", value)


def test_widths_fit_in_memory():
    assert checks.width("x", np.int32(3)) == 3
    with pytest.raises(ValueError, match="x must be an integer >= 3; got 2"):
        checks.width("x", 2, low=3)
    with pytest.raises(ValueError, match=r"x must leave a square matrix that fits in .* GiB; got"):
        checks.width("x", 2**31 - 1)


def test_choice_names_the_nearest_word():
    assert checks.choice("x", "tanh", ["tanh", "gelu"]) == "tanh"
    with pytest.raises(ValueError, match=r"tanh, gelu \(did you mean 'tanh'\?\); got 'tahn'"):
        checks.choice("x", "tahn", ["tanh", "gelu"])
    for value in ("zzz", 3):
        with pytest.raises(ValueError, match=r"^x must be one of tanh, gelu; got"):
            checks.choice("x", value, ["tanh", "gelu"])


@pytest.mark.parametrize("value", [[[1, 2]], np.ones((1, 2), np.int8), jnp.ones((1, 2), bool)])
def test_array_makes_floats(value):
    made = checks.array("x", value, ndim=2)
    assert made.shape == (1, 2)
    assert made.dtype == jnp.float64


def test_array_keeps_the_precision_it_gets():
    assert checks.array("x", np.ones(2, np.float32)).dtype == jnp.float32
    assert checks.array("x", np.ones(2, np.longdouble)).dtype == jnp.float64
    assert checks.array("x", 2.0).shape == ()


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[1, 2], [3]], ValueError, "be a rectangular array"),
        (np.ones(2, complex), ValueError, "be real"),
        (np.ones((2, 2)), ValueError, "have 1 axes"),
        (np.ones(0), ValueError, "not be empty"),
        ([1.0, math.nan], ValueError, "be finite; got .nan at index .1,"),
        ([math.inf], ValueError, "be finite; got .inf at index .0,"),
        (["a"], TypeError, "be an array of numbers; got dtype <U1"),
        ([None], TypeError, "be an array of numbers; got dtype object"),
        (jax.random.split(jax.random.key(0)), TypeError, "be an array of numbers"),
    ],
)
def test_array_refuses(value, error, message):
    with pytest.raises(error, match=f"^x must {message}"):
        checks.array("x", value, ndim=1)


def test_traced_values_pass_and_traced_shapes_are_checked():
    @jax.jit
    def inspect(x, xs):
        assert checks.number("x", x) is x
        assert checks.positive("x", x) is x
        assert checks.between("x", x, 5, 6) is x
        assert checks.is_traced({"a": x}, 1.0)
        assert checks.array("x", xs, ndim=1) is xs
        assert checks.array("x", [x, x]).shape == (2,)
        with pytest.raises(ValueError, match="x must be a scalar"):
            checks.number("x", xs)
        with pytest.raises(ValueError, match="x must have 2 axes"):
            checks.array("x", xs, ndim=2)
        return x

    assert inspect(-1.0, jnp.ones(3)) == -1
    assert not checks.is_traced(jnp.ones(2), 1.0, None)


def test_flag():
    assert checks.flag("x", np.bool_(True)) is True
    for value in ("yes", 1, None):
        with pytest.raises(TypeError, match="x must be True or False; got"):
            checks.flag("x", value)


def test_key():
    for key in (jax.random.key(0), jax.random.split(jax.random.key(1))[0]):
        assert checks.key("key", key) is key
    for value in (0, "a", None, jnp.zeros(2), jax.random.split(jax.random.key(1))):
        with pytest.raises(TypeError, match=r"key must be a key, such as jax.random.key\(0\); got"):
            checks.key("key", value)


def test_same_size():
    checks.same_size("a", 2, "b", 2)
    with pytest.raises(ValueError, match="shapes must chain: a has length 2 where b has length 3"):
        checks.same_size("a", 2, "b", 3)


def test_double_precision():
    checks.double_precision("this")
    with (
        jax.enable_x64(False),
        pytest.raises(RuntimeError, match=r"this needs double precision; add jax\.config\.update"),
    ):
        checks.double_precision("this")


@given(st.text(max_size=300) | st.binary(max_size=300) | st.lists(st.floats()))
def test_shown_is_one_short_line(value):
    text = checks.shown(value)
    assert len(text) <= 80
    assert "\n" not in text

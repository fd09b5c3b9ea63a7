"""How a solve ended, as data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flowsim.outcome import FAILURES, MEANINGS, NAMES, Outcome

CODES = np.arange(len(NAMES), dtype=np.int32)


@pytest.mark.parametrize("name", NAMES)
def test_names_round_trip(name):
    outcome = Outcome.of(name)
    assert outcome.name == name == str(outcome)
    assert outcome.meaning == MEANINGS[name]
    assert outcome == name
    assert outcome == Outcome.of(name)
    assert not outcome.__ne__(name)
    assert [other for other in NAMES if outcome == other] == [name]
    assert outcome.failed is (name in FAILURES)
    assert hash(outcome) == hash(Outcome.of(name))


def test_names_that_the_contract_promises_stand_first():
    promised = "reached_end event blow_up steady_state step_too_small non_finite too_many_steps"
    assert tuple(promised.split()) == NAMES[:7]


def test_comparison_with_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="outcome must be compared with one of"):
        assert Outcome.of("event") == "victory"


def test_comparison_with_other_types_is_never_equal():
    assert Outcome.of("event") != 1
    assert Outcome.of("event") != None  # noqa: E711


def test_batches_compare_member_by_member():
    batch = Outcome(CODES)
    assert list(batch.name) == list(NAMES)
    assert (batch == "blow_up").tolist() == [name == "blow_up" for name in NAMES]
    assert (batch != "blow_up").tolist() == [name != "blow_up" for name in NAMES]
    assert batch.failed.tolist() == [name in FAILURES for name in NAMES]
    assert str(batch) == ", ".join(NAMES)


def test_outcomes_pass_through_jit_and_vmap():
    @jax.jit
    def inspect(outcome):
        assert str(outcome) == "traced"
        return outcome, outcome == "event", outcome != "event", outcome.failed

    same, equal, unequal, failed = inspect(Outcome.of("event"))
    assert same == "event"
    assert (bool(equal), bool(unequal), bool(failed)) == (True, False, False)
    batch = jax.vmap(lambda code: Outcome(code).failed)(jnp.asarray(CODES))
    assert batch.tolist() == [name in FAILURES for name in NAMES]

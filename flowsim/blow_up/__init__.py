"""Blow-up times of the leading-order flow and of any vector field."""

from flowsim.blow_up.bounds import Bounds, blow_up_bounds
from flowsim.blow_up.closed_forms import balanced_blow_up_time, rank_one_blow_up_time
from flowsim.blow_up.evolution import leading_order_state
from flowsim.blow_up.leading_order import BlowUp, blow_up_time
from flowsim.blow_up.reduced import ReducedBlowUp, reduced_blow_up_time
from flowsim.blow_up.reduction import Garnier, garnier, partner_garnier, smaller_garnier
from flowsim.blow_up.user_fields import FieldBlowUp, solve_to_blow_up
from flowsim.blow_up.verdict import Verdict

__all__ = [
    "BlowUp",
    "Bounds",
    "FieldBlowUp",
    "Garnier",
    "ReducedBlowUp",
    "Verdict",
    "balanced_blow_up_time",
    "blow_up_bounds",
    "blow_up_time",
    "garnier",
    "leading_order_state",
    "partner_garnier",
    "rank_one_blow_up_time",
    "reduced_blow_up_time",
    "smaller_garnier",
    "solve_to_blow_up",
]

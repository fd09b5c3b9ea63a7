"""Vector fields, each a pure `rate(t, state, args)`."""

from flowsim.flows.full import Full as Full
from flowsim.flows.leading_order import LeadingOrder as LeadingOrder

"""Vector fields, each a pure `rate(t, state, args)`."""

from flowsim.flows.condensed import Condensed as Condensed
from flowsim.flows.condensed import CondensedState as CondensedState
from flowsim.flows.condensed import embed as embed
from flowsim.flows.full import Full as Full
from flowsim.flows.key_query import KeyQuery as KeyQuery
from flowsim.flows.key_query import key_query_matrix as key_query_matrix
from flowsim.flows.leading_order import LeadingOrder as LeadingOrder
from flowsim.flows.modified import Modified as Modified

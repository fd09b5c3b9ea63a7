"""Tasks: data with binary labels, one file a source."""

from flowsim.tasks.anchor import anchor as anchor
from flowsim.tasks.anchor import anchor_sequences as anchor_sequences
from flowsim.tasks.archive import load as load
from flowsim.tasks.digits import digits as digits
from flowsim.tasks.gaussian import gaussian as gaussian
from flowsim.tasks.sequences import Sequences as Sequences
from flowsim.tasks.task import Task as Task
from flowsim.tasks.text import text as text
from flowsim.tasks.text import text_parts as text_parts
from flowsim.tasks.text import text_sequences as text_sequences

"""The experiments of [CL]: figures, tables and checks, each with its claims and verdicts."""

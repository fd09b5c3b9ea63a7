"""Vector fields, each a pure `rate(t, state, args)`."""

"""Helpers for tests: KTIR text by pieces, and random kernels with an oracle (the latter needs Hypothesis)."""

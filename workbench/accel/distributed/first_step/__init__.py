"""Ranks check their first optimizer step: one process takes the same step on the same samples."""

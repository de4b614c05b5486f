"""Rules that read a profile and say what costs time, why, and what to do: one rule a file."""

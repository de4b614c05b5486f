"""Measurements behind the project's claims; each is `python -m benchmarks.<name>`."""

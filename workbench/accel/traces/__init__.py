"""torch.profiler traces from anywhere, read into the same report as a profile of this notebook."""

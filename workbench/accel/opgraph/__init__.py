"""A model as a graph of primitive operations, with parameters and cost on each node."""

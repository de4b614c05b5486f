"""Optimizers that live, their updates, gradients that are kept, and rates that go with the batch."""

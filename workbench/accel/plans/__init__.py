"""A Plan: several accelerations together, written as `autocast(dtype="bf16")+channels_last`."""

from accel.plans.plan import Plan

__all__ = ["Plan"]

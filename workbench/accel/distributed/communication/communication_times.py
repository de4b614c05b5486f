"""When gradients were ready, sent and there, on one rank: what travels from a rank to the kernel.

All times are seconds of the clock that the processes of a machine share (time.perf_counter).
"""

from __future__ import annotations

import msgspec

Span = tuple[float, float]


class BucketTimes(msgspec.Struct, frozen=True):
    """One bucket of one pass. It is ready when backward has given its last gradient; PowerSGD and 16 bits send fewer bytes."""

    index: int  # in the order in which DDP sends them
    parameters: int
    gradient_bytes: int
    sent_bytes: int
    ready_s: float
    began_s: float
    returned_s: float  # until then the backward pass stood still for it
    ended_s: float


class PassTimes(msgspec.Struct, frozen=True):
    """One backward pass: `computed_s` is when the last of all gradients was there, `ended_s` when they were means."""

    began_s: float
    computed_s: float
    ended_s: float
    buckets: list[BucketTimes]


class StepTimes(msgspec.Struct, frozen=True):
    """One optimizer step, from the end of the one before."""

    step: int
    began_s: float
    ended_s: float
    forward: list[Span]
    passes: list[PassTimes]
    optimizer: list[Span]


class BareAllReduce(msgspec.Struct, frozen=True):
    """An all-reduce after the training, with nothing else to do."""

    bytes: int
    began_s: float
    ended_s: float


class CommunicationTimes(msgspec.Struct, frozen=True):
    """What one rank saw; `why_none` says why there are no steps, where there are none."""

    steps: list[StepTimes]
    bare: list[BareAllReduce]
    why_none: str = ""

"""An all-reduce in every micro-batch is found; with no_sync, or without accumulation, it is not."""

from __future__ import annotations

from functools import cache

import pytest
import torch.distributed as dist

from accel.diagnosis.ddp_without_no_sync import ddp_without_no_sync
from tests.diagnosis.making import TRAIN, real
from tests.diagnosis.one_rank import real_in_a_group

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")

ACCUMULATE = """
for number in range(36):
    criterion(model(x), y).backward()
    if number % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
"""
NO_SYNC = """
import contextlib
for number in range(36):
    with contextlib.nullcontext() if number % 3 == 2 else model.no_sync():
        criterion(model(x), y).backward()
    if number % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
"""


@cache
def faulty():
    return real_in_a_group(ACCUMULATE)


@cache
def sound():
    return real_in_a_group(NO_SYNC)


def test_every_micro_batch_was_seen_to_reduce():
    finding = ddp_without_no_sync(faulty())
    assert finding.details == {"micro_batches": 3.0, "reducing_share": 1.0}
    assert finding.evidence[0].startswith("15 of 15 profiled backward passes")
    assert "with model.no_sync():" in finding.remedy
    assert finding.line == 3


def test_accumulation_with_no_sync_reduces_once_a_step():
    from accel.diagnosis.collectives import read_communication

    talk = read_communication(sound().profile.events)
    assert (talk.backwards, talk.reducing) == (15, 5)


def test_one_backward_a_step_has_nothing_to_save():
    assert ddp_without_no_sync(real_in_a_group(TRAIN)) is None


def test_accumulation_without_ddp_is_not_found():
    assert ddp_without_no_sync(real(ACCUMULATE)) is None

"""Where torch does not tell the kind of an event, its other answers give the same."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.profiler import profile

from accel.profiling.activity_kind import kind_by_other_answers, kind_reader
from accel.profiling.kineto_columns import read_columns
from tests.profiling.gpu_trace import training_on_gpu
from tests.profiling.recorded_event import RecordedEvent


def test_the_kinds_that_are_concluded_are_the_kinds_that_torch_tells(loop):
    with profile(use_kineto=True, profile_memory=True, with_stack=True) as profiler:
        with torch.profiler.record_function("mine"):
            loop.run(2)
    events = profiler.kineto_results.events()
    if not hasattr(type(events[0]), "activity_type"):
        pytest.skip("this version of torch does not tell")
    told = {(event.name(), event.activity_type()) for event in events}
    assert {kind for _, kind in told} >= {"cpu_op", "user_annotation", "cpu_instant_event", "python_function"}
    assert {(event.name(), kind_by_other_answers(event)) for event in events} == told


@pytest.mark.parametrize(
    ("name", "on_device", "kind"),
    [
        ("cudaLaunchKernel", 0, "cuda_runtime"),
        ("hipLaunchKernel", 0, "cuda_runtime"),
        ("cuLaunchKernelEx", 0, "cuda_driver"),
        ("Command Buffer Full", 0, "overhead"),
        ("cudnn::something", 0, "cpu_op"),
        ("Memcpy HtoD (Pinned -> Device)", 1, "gpu_memcpy"),
        ("Memset (Device)", 1, "gpu_memset"),
        ("Stream Wait Event", 1, "cuda_sync"),
        ("void at::native::vectorized_elementwise_kernel<4>(int)", 1, "kernel"),
    ],
)
def test_kinds_round_a_gpu_are_known_by_name_and_device(name, on_device, kind):
    assert kind_by_other_answers(RecordedEvent(name, 0, 1, on_device=on_device)) == kind


def test_the_shadow_of_a_range_on_the_gpu_is_not_a_kernel():
    shadow = RecordedEvent("accel::forward", 0, 1, on_device=1, kind="gpu_user_annotation")
    assert kind_by_other_answers(shadow) == "gpu_user_annotation"


class OlderEvent(RecordedEvent):
    """As torch 2.8 gives it."""

    activity_type = None
    metadata_json = None

    def __getattribute__(self, name):
        if name in ("activity_type", "metadata_json"):
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_an_older_torch_gives_the_same_columns_but_for_the_bytes():
    new = training_on_gpu().events
    old = [OlderEvent(**vars(event)) for event in new]
    assert kind_reader(old) is kind_by_other_answers
    columns, expected = read_columns(old), read_columns(new)
    assert [columns.kinds[k] for k in columns.kind] == [expected.kinds[k] for k in expected.kind]
    for field in ("launcher", "device", "stream", "correlation", "parent"):
        assert getattr(columns, field).tolist() == getattr(expected, field).tolist()
    assert not columns.bytes.any()

"""The profiler's lines are taken out of descriptor 2; nobody else's are."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from accel.profiling.quiet_stderr import profiler_lines_aside, sort_lines

KINETO = (
    b"ERROR:2026-11-21 01:21:35 5809:5809 DeviceProperties.cpp:56] gpuGetDeviceCount failed with code 35\n"
)


def test_profiler_lines_are_collected_and_others_come_through(capfd):
    with profiler_lines_aside() as said:
        os.write(2, b"mine, before\n" + KINETO + b"mine, without an end")
    assert said == ["gpuGetDeviceCount failed with code 35"]
    assert capfd.readouterr().err == "mine, before\nmine, without an end"


def test_descriptor_2_is_given_back_after_an_exception(capfd):
    try:
        with profiler_lines_aside():
            os.write(2, b"before the fault\n")
            raise KeyError("fault")
    except KeyError:
        os.write(2, b"after\n")
    assert capfd.readouterr().err == "before the fault\nafter\n"


@given(
    st.lists(st.binary(max_size=40).map(lambda line: line.replace(b":", b".") + b"\n"), max_size=6), st.data()
)
def test_sorting_loses_no_byte_of_other_output(lines, data):
    places = data.draw(st.lists(st.integers(0, len(lines)), max_size=3))
    # Only whole lines of the profiler's are put in: within a line of somebody else's it would be theirs.
    mixed = list(lines)
    for place in sorted(places, reverse=True):
        mixed.insert(place, KINETO)
    said = []
    assert sort_lines(b"".join(mixed), said) == b"".join(lines)
    assert len(said) == len(places)

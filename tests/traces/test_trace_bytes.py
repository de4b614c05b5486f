"""Files of traces: packed, cut off while packed, or something else altogether."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.errors import AccelError
from accel.traces.damage import Damage
from accel.traces.trace_bytes import read_pieces
from accel.traces.trace_profile import read_trace
from tests.traces.test_damaged_traces import outcome
from tests.traces.writing import trace, training_events, write

CONTENT = json.dumps(trace(training_events(40))).encode()
PACKED = gzip.compress(CONTENT, mtime=0)


def test_packed_and_plain_give_the_same_report(tmp_path):
    plain = read_trace(write(tmp_path / "t.json", CONTENT))
    packed = read_trace(write(tmp_path / "t.json.gz", CONTENT))
    renamed = read_trace(write(tmp_path / "packed but called.json", PACKED))
    assert plain.rows == packed.rows == renamed.rows
    assert packed.source.bytes == len(CONTENT)


def test_a_packed_file_of_several_members_is_one_trace(tmp_path):
    half = len(CONTENT) // 2
    path = write(tmp_path / "t.json", gzip.compress(CONTENT[:half]) + gzip.compress(CONTENT[half:]))
    assert read_trace(path).source.events == len(training_events(40))
    assert read_trace(path).damage == ()


@given(st.integers(20, len(PACKED) - 1))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_packed_file_cut_off_gives_what_it_still_holds(tmp_path, cut):
    result = outcome(write(tmp_path / "cut.json", PACKED[:cut]))
    if isinstance(result, AccelError):
        assert "empty" in str(result) or "no list" in str(result)
    else:
        assert "The gzip file is cut off: what it still holds was read." in result.damage


@given(place=st.integers(10, len(PACKED) - 1), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_corrupt_packed_file_is_read_up_to_there_or_refused(tmp_path, place, byte):
    damaged = bytearray(PACKED)
    damaged[place] = byte
    result = outcome(write(tmp_path / "corrupt.json", bytes(damaged)))
    if isinstance(result, AccelError):
        assert result.do
    else:
        assert result.damage or bytes(damaged) == PACKED


def test_unpacking_takes_bounded_memory(tmp_path):
    path = write(tmp_path / "zeros.gz", bytes(20_000_000))
    sizes = [len(piece) for piece in read_pieces(path, Damage(), piece_bytes=1 << 16)]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 1 << 16


@pytest.mark.parametrize(
    ("content", "because"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"SQLite format 3\0", "Nsight"),
        (b"\x80\x04\x95", "pickle"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"hello", "no list of trace events"),
    ],
)
def test_what_is_no_trace_is_refused_by_its_name(tmp_path, content, because):
    with pytest.raises(AccelError, match=because) as caught:
        read_trace(write(tmp_path / "file", content))
    assert caught.value.do


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(AccelError, match="No such file"):
        read_trace(tmp_path / "nowhere.json")
    with pytest.raises(AccelError, match="Is a directory"):
        read_trace(tmp_path)


@pytest.mark.parametrize(
    ("document", "tool"),
    [
        ({"traceEvents": [{"ph": "X", "cat": "FEE", "name": "f", "ts": 1, "dur": 2}], "viztracer_metadata": {}}, "VizTracer"),
        ({"traceEvents": [{"ph": "X", "cat": "devtools.timeline", "name": "f", "ts": 1, "dur": 2}]}, "Chrome"),
        ([{"ph": "X", "cat": "Node", "name": "conv_kernel_time", "ts": 1, "dur": 2}], "ONNX Runtime"),
        ({"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": []}, "speedscope"),
    ],
)  # fmt: skip
def test_a_trace_of_another_tool_is_named(tmp_path, document, tool):
    with pytest.raises(AccelError, match=tool) as caught:
        read_trace(write(tmp_path / "other.json", document))
    assert "torch.profiler" in caught.value.do


def test_an_empty_trace_says_that_nothing_was_recorded(tmp_path):
    with pytest.raises(AccelError, match="empty"):
        read_trace(write(tmp_path / "empty.json", trace([])))

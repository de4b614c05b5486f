"""Files of other tools: each is refused by its name, with what reads it; and nothing in them is ever run."""

from __future__ import annotations

import json
import os
import pickle
import re

import pytest

import accel
from accel.errors import AccelError
from accel.traces.trace_bytes import NOT_TRACES
from tests.traces.writing import trace, training_events, write

SNAPSHOT = {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 512}]]}
# (what the file begins with, what it is, what reads it)
FORMATS = [
    (b"PK\x03\x04\x14\x00", "a zip archive", "Unpack it"),
    (b"\x28\xb5\x2f\xfd\x04\x00", "compressed with zstd", "zstd -d"),
    (b"SQLite format 3\x00\x10\x00", "an SQLite database, as Nsight Systems and rocprof", "nsys stats"),
    (b"NVR\x00\x01\x00\x00\x00", "a report of NVIDIA Nsight", "Nsight Compute opens it"),
    *((pickle.dumps(SNAPSHOT, protocol), "a Python pickle", "pytorch.org/memory_viz") for protocol in (2, 3, 4, 5)),
    (b"\x0a\x12\x08\x01\x12\x09/host:CPU\x1a\x00", "an XLA XSpace file", "xprof"),
    (b"\x0a\xa4\x8b\x07\x08\x02\x12\x0d/device:TPU:0", "an XLA XSpace file", "xprof"),
    (b"<html>\n <head><title>GPU Memory Timeline HTML</title>", "HTML or SVG", "A browser opens it"),
    (b"\n<!DOCTYPE html>\n<html>", "HTML or SVG", "A browser opens it"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'>", "HTML or SVG", "A browser opens it"),
    (json.dumps([[0, 1, 2], [[0, 8], [0, 16], [0, 8]]]).encode(), "a list of lists", "as .html"),
    (b"[\n  [1700000000, 0, 512, 3],", "a list of lists", "as .html"),
]  # fmt: skip


@pytest.mark.parametrize("name", ["file.json", "file.json.gz"])
@pytest.mark.parametrize(("content", "what", "reader"), FORMATS)
def test_a_format_is_named_with_what_reads_it_packed_or_not(tmp_path, name, content, what, reader):
    with pytest.raises(AccelError) as refused:
        accel.open_trace(write(tmp_path / name, content))
    assert what in refused.value.because
    assert reader in refused.value.do


def test_every_known_format_is_tried():
    for beginning in NOT_TRACES:
        assert any(re.match(beginning, content, re.IGNORECASE | re.DOTALL) for content, *_ in FORMATS)


@pytest.mark.parametrize("start", ["", "\n", " \t\r\n"])
@pytest.mark.parametrize("document", [trace(training_events(6), host_name="<html>"), training_events(6)])
def test_a_trace_is_none_of_them_whatever_blanks_it_begins_with(tmp_path, start, document):
    report = accel.open_trace(write(tmp_path / "t.json", start + json.dumps(document)))
    assert (report.steps, report.damage) == (4, ())


@pytest.mark.parametrize(
    ("document", "tool"),
    [
        (SNAPSHOT, "torch's memory profiler (open the snapshot at docs.pytorch.org/memory_viz)"),
        ({"rocprofiler-sdk-tool": [{"metadata": {"pid": 5}, "buffer_records": {}}]}, "rocprofv3"),
        ({"traceEvents": [{"ph": "X", "name": "hipLaunchKernel", "ts": 1, "dur": 2}]}, "a trace of ROCm's rocprof"),
        ({"traceEvents": [{"ph": "X", "name": "hsa_init", "ts": 1, "dur": 2}]}, "a trace of ROCm's rocprof"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["other.json", "other.json.gz"])
def test_json_of_another_tool_is_named(tmp_path, name, document, tool):
    with pytest.raises(AccelError) as refused:
        accel.open_trace(write(tmp_path / name, document))
    assert f"it looks like {tool}" in refused.value.because
    assert "torch.profiler" in refused.value.do


class Payload:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("name", ["snapshot.json", "snapshot.json.gz"])
def test_a_pickle_is_never_loaded(tmp_path, name, protocol):
    content, made = pickle.dumps(Payload(tmp_path / "made"), protocol), tmp_path / "made"
    path = write(tmp_path / name, content)
    for asked in (path, tmp_path):
        with pytest.raises(AccelError):
            accel.open_trace(asked)
    assert not made.exists()
    pickle.loads(content)
    assert made.is_dir()


def test_beside_a_trace_it_is_left_out_and_named(tmp_path):
    write(tmp_path / "trace.json", trace(training_events()))
    write(tmp_path / "snapshot.json", pickle.dumps(SNAPSHOT))
    (note,) = [note for note in accel.open_trace(tmp_path).notes if "snapshot.json" in note]
    assert note.startswith("Left out: ")
    assert "snapshot.json: it is a Python pickle" in note

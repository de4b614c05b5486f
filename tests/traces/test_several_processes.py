"""Several processes in one file, as tools write that merge the traces of ranks: each is read as from a file of its own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel.errors import AccelError
from accel.traces.trace_profile import TraceProfile, read_traces
from accel.workbench.trace_findings import with_trace_findings
from tests.traces.test_damaged_traces import FILES, PLAIN_EVENT
from tests.traces.test_ranks import rank_events, write_ranks
from tests.traces.writing import H100, span, trace, write

# The process that a row of a rank has in the merged file; in a file of its own the CPU's is 100, and the GPU's 0.
LABELS = {
    "as SGLang merges": lambda rank, pid: f"[TP{rank:02}] {pid}",
    "a label for each row": lambda rank, pid: f"rank {rank} {'CPU' if pid else 'GPU'}",
    "one process for both rows": lambda rank, pid: f"rank_{rank}",
    "plain pids and one device 0": lambda rank, pid: 4711 + rank if pid else 0,
}
AS_SGLANG, PLAIN = LABELS["as SGLang merges"], LABELS["plain pids and one device 0"]


def merged(folder, *ranks, label=AS_SGLANG, more=()):
    """The events of all ranks in one file; `more` as they are."""
    events = [
        {**event, "pid": label(rank, event["pid"])} for rank, each in enumerate(ranks) for event in each
    ]
    return write(folder / "merged.json", trace([*events, *more], deviceProperties=[H100]))


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_each_rank_of_a_merged_file_is_read_as_from_its_own(tmp_path, label):
    ranks = rank_events(), rank_events(loading=250.0)
    (tmp_path / "apart").mkdir()
    apart = accel.open_trace(write_ranks(tmp_path / "apart", *ranks))
    together = accel.open_trace(merged(tmp_path, *ranks, label=label))
    assert [replace(row, host="") for row in together.rows] == [replace(row, host="") for row in apart.rows]
    assert (together.straggler, together.calls) == (apart.straggler, apart.calls)
    assert together.straggler.rank == 1
    for one, other in zip(together.profiles, apart.profiles, strict=True):
        assert (one.rows, one.devices, one.findings) == (other.rows, other.devices, other.findings)
        assert (len(one.devices), one.damage, one.completeness.is_complete) == (1, (), True)


def test_a_device_of_its_own_goes_with_the_process_that_launched_its_work(tmp_path):
    ranks = [rank_events(), rank_events(loading=250.0)]
    for device, events in enumerate(ranks):
        for event in events:
            event["pid"] = event["pid"] and 4711 + device
            if "device" in event["args"]:
                event["pid"] = event["args"]["device"] = device
    reports = read_traces(merged(tmp_path, *ranks, label=lambda rank, pid: pid))
    assert [(report.source.process, [gpu.device for gpu in report.devices]) for report in reports] == [
        ("4711", ["cuda:0"]), ("4712", ["cuda:1"])
    ]  # fmt: skip


def test_gpus_alone_of_several_processes_are_told_apart_by_their_calls(tmp_path):
    ranks = [
        [event for event in events if event["cat"] in ("cuda_runtime", "kernel")]
        for events in (rank_events(), rank_events(loading=250.0))
    ]
    reports = read_traces(merged(tmp_path, *ranks, label=PLAIN))
    assert [report.source.process for report in reports] == ["4711", "4712"]
    assert [gpu.kernels_per_step for report in reports for gpu in report.devices] == [12, 12]


def test_a_process_that_does_not_tell_its_rank_gets_the_next_one_and_is_named(tmp_path):
    report = accel.open_trace(merged(tmp_path, rank_events(), rank_events(loading=250.0), label=PLAIN))
    said = "Process 4712 of merged.json gives no rank, or a rank that another trace already has; this report calls it rank 1."
    assert said in report.notes
    assert "process 4712" in str(report)
    other = accel.open_trace(merged(tmp_path, rank_events(), rank_events(loading=250.0)))
    assert not [note for note in other.notes if "does not tell a rank" in note]


@pytest.mark.parametrize(("tiny", "said"), [(1, "1 process"), (2, "2 processes")])
@pytest.mark.parametrize("large", [1, 2])
def test_a_process_that_did_hardly_any_work_is_left_out_and_counted(tmp_path, large, tiny, said):
    ranks = [rank_events(), rank_events(loading=250.0)][:large]
    plain = accel.open_trace(merged(tmp_path, *ranks))
    more = [span("aten::empty", 5.0, 1.0, pid=900 + number) for number in range(tiny)]
    report = accel.open_trace(merged(tmp_path, *ranks, more=more))
    note = f"Left out: {said} that did less than 1.0 % of the busiest one's work."
    assert isinstance(report, TraceProfile) == (large == 1)
    assert report.rows == plain.rows
    assert [found for found in report.notes if "busiest one" in found] == [
        note if large == 1 else f"Rank 0: {note}"
    ]


def test_a_range_round_nothing_does_not_outweigh_the_process_that_works(tmp_path):
    plain = accel.open_trace(merged(tmp_path, rank_events()))
    waits = span("ProfilerStep#9", 0.0, 1e9, cat="user_annotation", pid=900)
    assert accel.open_trace(merged(tmp_path, rank_events(), more=[waits])).rows == plain.rows


def test_a_damaged_event_is_of_its_process_and_a_damaged_file_of_all(tmp_path):
    odd = [*rank_events(), span("aten::odd", 5, -1.0)]
    report = accel.open_trace(merged(tmp_path, rank_events(), odd))
    assert report.damaged == (1,)
    assert [note.split(" that")[0] for note in report.notes if "duration" in note] == [
        "Rank 1: 1 event with a duration"
    ]
    path = merged(tmp_path, rank_events(), rank_events())
    assert accel.open_trace(path).damaged == ()
    assert accel.open_trace(write(path, path.read_bytes()[:-10])).damaged == (0, 1)


PIDS = st.sampled_from([0, 1, 2, "[TP00] 1", "[TP00] 0", "CUDA functions"])


def outcome(path):
    """A report for each process, or the error."""
    try:
        return read_traces(path)
    except AccelError as error:
        return error


@given(events=st.lists(st.builds(lambda event, pid: {**event, "pid": pid}, PLAIN_EVENT, PIDS), max_size=30))
@FILES
def test_whatever_lies_in_which_process_there_are_reports_or_a_reason(tmp_path, events):
    reports = outcome(write(tmp_path / "mixed.json", trace(events)))
    if isinstance(reports, AccelError):
        assert reports.do
        return
    assert len({report.source.process for report in reports}) == len(reports)
    for report in map(with_trace_findings, reports):
        assert str(report)
        assert not [note for note in report.notes if "failed on this trace" in note]
        json.dumps(report.to_dict(), allow_nan=False)

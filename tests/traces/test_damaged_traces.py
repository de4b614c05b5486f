"""Whatever is in the file, the answer is a report with the damage named, or an error that says what to do."""

from __future__ import annotations

import copy
import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.errors import AccelError
from accel.traces import event_batches
from accel.traces.trace_profile import TraceProfile, read_trace
from accel.workbench.trace_findings import with_trace_findings
from tests.traces.writing import span, trace, training_events, write

FILES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
SOUND = json.dumps(trace(training_events()), indent=1).encode()


def outcome(path):
    """The report or the error."""
    try:
        return read_trace(path)
    except AccelError as error:
        return error


def opened(path):
    """The report or the error, checked for what every one of them must be."""
    result = outcome(path)
    if isinstance(result, AccelError):
        assert result.because
        assert result.do
        assert "msgspec" not in str(result)
    else:
        result = with_trace_findings(result)
        assert not [note for note in result.notes if "failed on this trace" in note]
        assert str(result)
        assert "<table" in result._repr_mimebundle_()["text/html"] or not result.rows
        assert all(math.isfinite(row.self_ms) and row.self_ms >= 0 for row in result.rows)
        assert sum(row.share for row in result.rows) == pytest.approx(1) or not any(
            row.self_ms for row in result.rows
        )
        json.dumps(result.to_dict(), allow_nan=False)
    return result


@given(cut=st.integers(0, len(SOUND) - 1))
@FILES
def test_a_trace_cut_off_anywhere_gives_what_is_complete_and_says_so(tmp_path, cut):
    report = opened(write(tmp_path / "cut.json", SOUND[:cut]))
    events = SOUND[:cut].count(b'"args"')
    if isinstance(report, TraceProfile):
        assert report.damage
        assert events - 1 <= report.source.events <= events
    else:
        assert events <= 1


def test_the_tail_is_named_even_when_all_events_are_there(tmp_path):
    report = opened(write(tmp_path / "tail.json", SOUND[: SOUND.rindex(b"traceName")]))
    assert report.source.events == len(training_events())
    assert any("after its last event" in said for said in report.damage)


def test_what_follows_the_events_without_end_is_not_read_into_memory(tmp_path, monkeypatch):
    for bound in ("MOST_HEADER_BYTES", "MOST_EVENT_BYTES"):
        monkeypatch.setattr(event_batches, bound, 1 << 20)
    report = opened(
        write(tmp_path / "long.json", SOUND.rstrip().removesuffix(b"}") + b" " * (40 << 20) + b"}")
    )
    assert report.source.events == len(training_events())
    assert any("too long" in said for said in report.damage)


@given(flips=st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=8))
@FILES
def test_flipped_bytes_never_end_in_a_traceback(tmp_path, flips):
    damaged = bytearray(SOUND)
    for place, byte in flips:
        damaged[place] = byte
    opened(write(tmp_path / "flipped.json", bytes(damaged)))


def test_one_broken_event_costs_only_itself_and_is_counted(tmp_path):
    broken = SOUND.replace(b'"name": "aten::mm"', b'"name": "aten::mm', 1)
    report = opened(write(tmp_path / "broken.json", broken))
    assert report.damage == ("1 place that is no JSON was skipped.",)
    assert report.source.events == len(training_events()) - 1


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("<script>alert(1)</script>"),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip
TIME = st.one_of(st.floats(0, 1e4), st.integers(0, 10_000), st.floats(), st.integers(-5, 5), JUNK)
KINDS = [
    "cpu_op",
    "user_annotation",
    "cuda_runtime",
    "kernel",
    "gpu_memcpy",
    "python_function",
    "Operator",
    "",
    "odd",
]
OPS = [
    "aten::mm", "aten::to", "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad", "ProfilerStep#1",
    "enumerate(DataLoader)#x.__next__", "autograd::engine::evaluate_function: MmBackward0", "accel::forward",
    "accel.step", "accel.module::a", "nn.Module: Net_0", "## Call CompiledFxGraph x ##", "Memcpy HtoD (Pageable -> Device)",
    "ncclDevKernel_AllReduce", "<b>bold</b>", "cudaLaunchKernel",
]  # fmt: skip
ARGS = st.dictionaries(
    st.sampled_from(
        ["External id", "correlation", "stream", "device", "bytes", "Sequence number", "Fwd thread id"]
    ),
    st.one_of(st.integers(-1, 4), JUNK),
)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.one_of(st.just("X"), st.just("X"), st.sampled_from("iMsfBEq"), JUNK),
        "cat": st.one_of(st.sampled_from(KINDS), JUNK), "name": st.one_of(st.sampled_from(OPS), JUNK),
        "tid": st.one_of(st.integers(0, 2), JUNK), "pid": JUNK, "ts": TIME, "dur": TIME, "args": st.one_of(ARGS, JUNK),
    },
)  # fmt: skip
PLAIN_EVENT = st.builds(
    span, st.sampled_from(OPS), st.integers(0, 50), st.integers(0, 30), cat=st.sampled_from(KINDS[:6]), tid=st.integers(0, 2),
    external=st.integers(0, 4), correlation=st.integers(0, 4), sequence=st.integers(-1, 3), forward=st.integers(0, 2),
)  # fmt: skip


@given(events=st.lists(st.one_of(EVENT, JUNK), max_size=12))
@FILES
def test_random_events_of_any_type_never_end_in_a_traceback(tmp_path, events):
    opened(write(tmp_path / "random.json", trace(events)))


@given(events=st.lists(PLAIN_EVENT, min_size=1, max_size=30))
@FILES
def test_events_that_overlap_in_any_way_give_times_that_can_be(tmp_path, events):
    opened(write(tmp_path / "overlapping.json", trace(events)))


@given(document=st.one_of(JUNK, st.binary(max_size=40), st.dictionaries(st.just("traceEvents"), JUNK)))
@FILES
def test_any_other_content_is_refused(tmp_path, document):
    content = document if isinstance(document, bytes) else json.dumps(document)
    assert isinstance(opened(write(tmp_path / "other.json", content)), AccelError)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("dur", math.nan, "1 event with a duration that is negative, no number or longer than a day"),
        ("dur", -3.0, "1 event with a duration that is negative"),
        ("dur", 1e12, "1 event with a duration that is negative, no number or longer than a day"),
        ("ts", math.nan, "1 event at a time that cannot be"),
        ("ts", 5.0, "1 event at a time that cannot be"),
        ("ts", 1e300, "1 event at a time that cannot be"),
    ],
)
def test_a_time_that_cannot_be_is_left_out_counted_and_named(tmp_path, field, value, said):
    events = training_events()
    sound = read_trace(write(tmp_path / "sound.json", trace(copy.deepcopy(events))))
    strange = span("aten::strange", 130, 5.0)
    report = opened(write(tmp_path / "odd.json", trace([*events, {**strange, field: value}])))
    assert report.damage[0].startswith(said)
    assert report.damage[0] in str(report)
    assert report.rows == sound.rows


def test_missing_durations_unknown_phases_and_categories_are_counted(tmp_path):
    missing = span("aten::missing", 10, 5.0)
    del missing["dur"]
    odd = [missing, {**span("x", 1, 1.0), "ph": "?"}, span("x", 1, 1.0, cat="my_tool")]
    report = opened(write(tmp_path / "odd.json", trace([*training_events(), *odd])))
    assert report.damage == (
        "1 event without a duration was left out.",
        "1 event of a kind that torch does not write was left out.",
        "Left out: 1 event of categories that accel cannot read (my_tool).",
    )


def test_an_event_that_outlives_the_one_it_began_in_is_cut_and_counted(tmp_path):
    events = [span("aten::outer", 0, 100.0), span("aten::inner", 50, 90.0), span("aten::next", 200, 10.0)]
    report = opened(write(tmp_path / "overlap.json", trace(events)))
    times = {row.op: round(row.self_ms * 1e3, 3) for row in report.rows}
    assert (times["aten::outer"], times["aten::inner"]) == (50, 50)
    assert report.damage == ("1 event outlived the one it began in, and was cut at its end.",)


@given(
    depth=st.integers(1, 200_000), level=st.sampled_from([("[", "]"), ('{"a":', "}")]), is_closed=st.booleans(),
    where=st.sampled_from(['"args": ', '"name": "aten::mm"', '"traceEvents": ', '"traceName": ', '"host_name": ']),
)  # fmt: skip
@settings(FILES, max_examples=40)
def test_nesting_of_any_depth_anywhere_never_ends_in_a_traceback(tmp_path, depth, level, is_closed, where):
    deep = level[0] * depth + ("0" + level[1] * depth if is_closed else "")
    said = where.encode() if where.endswith(" ") else b'"odd": 1, ' + where.encode()
    opened(write(tmp_path / "deep.json", SOUND.replace(where.encode(), said + deep.encode() + b", ", 1)))
    opened(
        write(
            tmp_path / "named.json", SOUND.replace(b'"name": ', b'"name": ' + deep.encode() + b', "x": ', 1)
        )
    )


@pytest.mark.parametrize("key", ["profiles", "odd"])
def test_a_file_without_events_that_is_nested_too_deep_is_refused_in_words(tmp_path, key):
    error = opened(write(tmp_path / "deep.json", f'{{"{key}": {"[" * 100_000}{"]" * 100_000}}}'))
    assert isinstance(error, AccelError)


@given(depth=st.integers(300, 1100))
@FILES
def test_a_name_that_is_nested_is_text_or_skipped(tmp_path, depth):
    events = [*training_events(), {**span("x", 5, 1.0), "name": None}]
    content = json.dumps(trace(events)).replace('"name": null', '"name": ' + "[" * depth + "]" * depth)
    assert isinstance(opened(write(tmp_path / "deep.json", content)), TraceProfile)


def test_html_in_names_is_shown_as_text(tmp_path):
    name = "<script>alert('x')</script>"
    events = [*training_events(), span(name, 3120, 500.0, tid=5)]
    html = opened(write(tmp_path / "html.json", trace(events)))._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert "&lt;script&gt;" in html

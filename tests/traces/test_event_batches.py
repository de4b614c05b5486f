"""Events come in batches that end where events end, whatever the size of the pieces and the form of the file."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.traces.damage import Damage
from accel.traces.event_batches import EventBatches
from tests.traces.writing import HEAD, span, trace, training_events

TRICKY = [
    span('a "quoted" },{ name', 1, 2.0),
    span("back\\slash\\", 2, 2.0),
    {**span("nested", 3, 2.0), "args": {"list": [{"a": {}}, {"b": 1}], "External id": 7, "text": "]},{"}},
    span("µs ✓ \u2028", 4, 2.0),
]


def read(content: bytes, piece_bytes=1 << 22):
    damage = Damage()
    pieces = (content[i : i + piece_bytes] for i in range(0, len(content), piece_bytes))
    batches = EventBatches(pieces, damage)
    events = [event for batch in batches for event in batch]
    return events, batches, damage


@given(piece_bytes=st.integers(1, 3000), indent=st.sampled_from([None, 0, 2]))
@settings(deadline=None, max_examples=60)
def test_the_size_of_the_pieces_changes_nothing(piece_bytes, indent):
    document = trace([*TRICKY, *training_events(3)], deviceProperties=[{"id": 0}, {"id": 1}])
    content = json.dumps(document, indent=indent).encode()
    events, batches, damage = read(content, piece_bytes)
    whole, _, _ = read(content)
    assert events == whole
    assert [event.name for event in events] == [event["name"] for event in document["traceEvents"]]
    assert batches.header["deviceProperties"] == [{"id": 0}, {"id": 1}]
    assert batches.header["traceName"] == "trace.json"
    assert (damage.sentences, batches.read_bytes) == ((), len(content))


@pytest.mark.parametrize("piece_bytes", [7, 100, 1 << 20])
def test_what_the_file_says_of_itself_may_stand_behind_the_events(piece_bytes):
    document = {"traceEvents": training_events(), **HEAD, "deviceProperties": [{"id": i} for i in range(30)]}
    events, batches, damage = read(json.dumps(document).encode(), piece_bytes)
    assert len(events) == len(training_events())
    assert len(batches.header["deviceProperties"]) == 30
    assert damage.sentences == ()


@pytest.mark.parametrize("piece_bytes", [50, 1 << 20])
def test_a_bare_list_of_events_is_a_trace_too(piece_bytes):
    events, batches, damage = read(json.dumps(training_events()).encode(), piece_bytes)
    assert len(events) == len(training_events())
    assert batches.has_events
    assert damage.sentences == ()


def test_times_and_numbers_written_as_text_are_read():
    said = (
        '{"traceEvents":[{"ph":"X","name":"a","ts":"12.5","dur":"3","tid":"7","args":{"External id":"41"}}]}'
    )
    (event,), _, damage = read(said.encode())
    assert (event.ts, event.dur, event.args.external) == (12.5, 3.0, 41)
    assert damage.sentences == ()


def test_one_event_of_strange_types_does_not_change_how_the_others_are_read():
    events = training_events()
    strange = {"ph": "X", "name": 5, "ts": [1], "dur": None, "tid": {}, "args": "none", "cat": None}
    read_events, _, damage = read(json.dumps(trace([*events[:5], strange, 3, *events[5:]])).encode())
    sound, _, _ = read(json.dumps(trace(events)).encode())
    assert read_events[:5] + read_events[6:] == sound
    assert read_events[5].name == "5"
    assert damage.sentences == ("1 entry that is no event was skipped.",)


def test_a_file_without_events_has_none_and_its_keys_are_kept():
    events, batches, _ = read(b'{"profiles": [], "name": "x"}')
    assert (events, batches.has_events) == ([], False)
    assert "profiles" in batches.header


def test_a_key_in_the_head_that_only_looks_like_the_list_is_passed_over():
    content = b'{"note": "\\"traceEvents\\": [", "other": {"traceEvents": [1]}, "traceEvents": [{"ph": "X", "name": "a"}]}'
    events, batches, _ = read(content)
    assert [event.name for event in events] == ["a"]
    assert batches.header["other"] == {"traceEvents": [1]}


def test_a_broken_head_costs_what_it_says_but_no_event():
    content = json.dumps(trace(training_events())).encode().replace(b'"node7"', b'"node7')
    events, _, damage = read(content)
    assert len(events) == len(training_events())
    assert damage.sentences == ("What the file says of its machine cannot be read.",)


DEEP = st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")])


@given(
    level=DEEP, depth=st.integers(900, 30_000), is_closed=st.booleans(), where=st.sampled_from(["args", "name", "odd"]),
    piece_bytes=st.sampled_from([1 << 10, 1 << 14, 1 << 22]),
)  # fmt: skip
@settings(deadline=None, max_examples=40)
def test_an_event_nested_too_deep_costs_only_itself(level, depth, is_closed, where, piece_bytes):
    events = [json.dumps(event) for event in training_events()]
    deep = level[0] * depth + ("0" + level[1] * depth if is_closed else "")
    events.insert(5, f'{{"ph": "X", "{where}": {deep}}}')
    content = json.dumps({**HEAD, "traceEvents": []})[:-2] + ",".join(events) + "]}"
    found, batches, _ = read(content.encode(), piece_bytes)
    sound, _, _ = read(json.dumps(trace(training_events())).encode())
    assert found[:5] == sound[:5]
    assert found[-len(sound) + 6 :] == sound[6:]
    assert batches.header["host_name"] == "node7"


@pytest.mark.parametrize("place", ["head", "tail", "no events"])
def test_what_is_nested_too_deep_beside_the_events_costs_no_event(place):
    deep, events = "[" * 100_000 + "]" * 100_000, json.dumps(training_events())
    content = {
        "head": f'{{"deep": {deep}, "traceEvents": {events}}}',
        "tail": f'{{"traceEvents": {events}, "deep": {deep}}}',
        "no events": f'{{"deep": {deep}}}',
    }[place]
    found, batches, damage = read(content.encode())
    assert len(found) == (0 if place == "no events" else len(training_events()))
    assert batches.has_events == bool(found)
    assert bool(damage.sentences) == bool(found)


def test_an_event_longer_than_what_is_tried_at_once_is_read_beside_damage():
    long = [span("a" * size, 1, 2.0, lines=list(range(size // 4))) for size in (20_000, 1 << 14, 70_000)]
    content = json.dumps(trace([*long, *training_events(1)])).replace('"aten::mm"', '"aten::mm', 1)
    found, _, damage = read(content.encode())
    assert [event.name for event in found[:3]] == [event["name"] for event in long]
    assert len(found) == len(long) + len(training_events(1)) - 1
    assert damage.sentences == ("1 place that is no JSON was skipped.",)


@pytest.mark.parametrize("garbage", ['{"a":', '{"ph":', '{"ph":1,"a":{"a":', '{"a" 1},'])
def test_a_megabyte_of_garbage_takes_no_longer_than_some_megabytes_of_events(garbage):
    def seconds(entries, count):
        content = json.dumps(trace(training_events())).replace('[{"ph"', f'[{entries * count},{{"ph"', 1)
        began = time.process_time()
        found, _, _ = read(content.encode())
        return time.process_time() - began, found

    event = json.dumps({**training_events()[0], "tid": []}) + ","  # read one by one, for its odd thread
    usual, _ = seconds(event, (4 << 20) // len(event))
    taken, found = seconds(garbage, (1 << 20) // len(garbage))
    assert taken < 5 * usual
    assert len(found) == len(training_events()) or '"ph"' in garbage

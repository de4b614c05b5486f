"""`%accel open`, `accel open` and `accel.open_trace`: files, several, folders, and what is none."""

from __future__ import annotations

import json
import tracemalloc

import pytest

import accel
from accel.cli import main
from accel.commands import Place, command_named, parse
from accel.commands.line.completing import complete
from accel.errors import AccelError
from accel.traces.ranks_report import RanksReport
from accel.traces.trace_profile import TraceProfile, read_trace
from tests.traces.writing import span, trace, training_events, write


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "my trace.json.gz", trace(training_events()))


def test_the_function_the_magic_and_the_program_give_the_same_report(file, capsys):
    report = accel.open_trace(file)
    assert isinstance(report, TraceProfile)
    assert str(command_named("open").run(parse(f"open '{file}'"), Place())) == str(report)
    assert main(["open", str(file)]) == 0
    assert capsys.readouterr().out.rstrip() == str(report)


def test_the_program_prints_json(file, capsys):
    assert main(["open", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["source"]["events"] == len(training_events())
    assert told["rows"]


def test_a_folder_with_one_trace_gives_its_report_and_with_more_the_ranks(file):
    assert isinstance(accel.open_trace(file.parent), TraceProfile)
    (file.parent / "deeper").mkdir()
    write(file.parent / "deeper" / "rank1.json", trace(training_events()))
    assert isinstance(accel.open_trace(file.parent), RanksReport)


def test_a_pattern_names_files(file):
    write(file.parent / "other.json", trace(training_events()))
    assert isinstance(accel.open_trace(file.parent / "*.json*"), RanksReport)


def test_of_files_of_which_one_is_a_trace_its_report_is_given_and_the_others_are_named(file):
    write(file.parent / "config.json", {"lr": 0.1})
    report = accel.open_trace(file.parent)
    assert isinstance(report, TraceProfile)
    assert report.events is not None
    assert any(note.startswith("Left out: ") and "config.json" in note for note in report.notes)


def test_a_file_named_twice_is_read_once(file):
    assert isinstance(accel.open_trace(file, str(file)), TraceProfile)


def test_nothing_to_open_says_what_to_name(tmp_path, capsys):
    for asked, because in [
        ((), "no file is named"),
        ((tmp_path,), "there is no .json"),
        ((tmp_path / "x",), "No such file"),
    ]:
        with pytest.raises(AccelError, match=because) as caught:
            accel.open_trace(*asked)
        assert caught.value.do
    assert main(["open", str(tmp_path / "x.json")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_tab_completes_files(file):
    assert complete(f"%accel open {file.parent}/my") == []  # with a space in it: not one word
    write(file.parent / "step.json", trace(training_events()))
    assert complete(f"%accel open {file.parent}/st") == [str(file.parent / "step.json")]


def test_more_events_than_memory_takes_are_refused_while_the_file_is_read(tmp_path):
    file = write(tmp_path / "large.json.gz", trace(training_events(2000)))
    with pytest.raises(
        AccelError, match=r"more than [\d,]+ events with .* for which .* too little. Record fewer steps"
    ) as refused:
        read_trace(file, piece_bytes=1 << 14, free_bytes=400_000)
    assert int(str(refused.value).split(" events")[0].split()[-1].replace(",", "")) < 5_000  # of 18,000
    assert read_trace(file, free_bytes=100_000_000).steps


@pytest.fixture
def most_bytes():
    """Gives the most that Python held at any moment since the test began to ask."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def of_long_names(path, name, count):
    """A file of operations with names of 100 kB each, all different; written piece by piece."""
    events = ",".join(json.dumps(span(name(number), 10 * number, 5)) for number in range(count))
    return write(path, json.dumps(trace([])).replace('"traceEvents": []', f'"traceEvents": [{events}]'))


def test_names_that_are_long_and_all_different_are_refused_before_they_fill_the_memory(tmp_path, most_bytes):
    file = of_long_names(tmp_path / "names.json.gz", lambda number: f"{number} {'x' * 100_000}", 800)
    tracemalloc.reset_peak()
    with pytest.raises(AccelError, match=r"events with .* of different names, for which .* are too little"):
        read_trace(file, free_bytes=2_000_000)
    assert most_bytes() < 20_000_000


def test_of_names_that_differ_only_where_nobody_sees_it_one_is_kept(tmp_path, most_bytes):
    file = of_long_names(tmp_path / "names.json.gz", lambda number: f"kernel<{'x' * 100_000}{number}", 800)
    tracemalloc.reset_peak()
    (name,) = {row.op for row in read_trace(file, free_bytes=2_000_000).ops} - {"Python code"}
    assert name.endswith("x…")
    assert most_bytes() < 20_000_000

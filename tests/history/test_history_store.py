"""The history file: written by two notebooks at once, damaged, locked away, newer, or off."""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from accel.history import HistoryStore, PredictionRecord, TrialRecord
from accel.history.history_file import history_path

PREDICTION = PredictionRecord(
    profile="a", workload="w", time="2026-01-31T10:00:00+00:00", kind="input_bound", plan="loader_workers", share=0.4,
    ratio=1.4, low=1.1, high=1.6, basis="Amdahl", machine="m", versions="torch 2.14",
)  # fmt: skip
TRIAL = TrialRecord(
    profile="a", workload="w", time="2026-01-31T10:05:00+00:00", plan="loader_workers", verdict="faster", ratio=1.3,
    low=1.2, high=1.4, where_measured="as the notebook runs", quality="same", baseline_ms=10.0, described="9 steps",
    machine="m", versions="torch 2.14",
)  # fmt: skip


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "history.sqlite"


def test_what_is_written_is_read_back_in_order(file):
    HistoryStore(file).add([PREDICTION, TRIAL])
    HistoryStore(file).add([replace(PREDICTION, kind="copy_bound")])
    assert HistoryStore(file).predictions() == [PREDICTION, replace(PREDICTION, kind="copy_bound")]
    assert HistoryStore(file).trials() == [TRIAL]


def test_a_figure_that_was_not_measured_comes_back_as_nan(file):
    store = HistoryStore(file)
    store.add([replace(TRIAL, ratio=math.nan)])
    assert math.isnan(store.trials()[0].ratio)
    assert store.problem == ""


def test_names_with_quotes_and_other_scripts_are_only_text(file):
    strange = replace(PREDICTION, basis="'); DROP TABLE predictions; --", kind="データ")
    HistoryStore(file).add([strange])
    assert HistoryStore(file).predictions() == [strange]


WRITER = """
import sys
from pathlib import Path
from dataclasses import replace
from accel.history import HistoryStore
from tests.history.test_history_store import PREDICTION
store = HistoryStore(Path(sys.argv[1]))
for i in range(40):
    store.add([replace(PREDICTION, profile=sys.argv[2], kind=str(i))])
print(store.problem, end="")
"""


def test_two_notebooks_write_at_once_and_nothing_is_lost(file):
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file), name], cwd=root, stdout=subprocess.PIPE, text=True
        )
        for name in ("first", "second", "third")
    ]
    assert [writer.communicate()[0] for writer in writers] == ["", "", ""]
    found = HistoryStore(file).predictions()
    for name in ("first", "second", "third"):
        assert [each.kind for each in found if each.profile == name] == [str(i) for i in range(40)]


@pytest.mark.parametrize("damage", ["not a database", "torn page"])
def test_a_damaged_file_is_named_set_aside_and_never_deleted(file, damage):
    HistoryStore(file).add([replace(PREDICTION, kind=str(i) * 200) for i in range(200)])
    content = bytearray(file.read_bytes())
    content[: 100 if damage == "not a database" else 0] = b"\0" * (100 if damage == "not a database" else 0)
    content[4096:9000] = b"\xff" * (9000 - 4096)
    file.write_bytes(content)
    store = HistoryStore(file)
    store.add([PREDICTION])
    aside = [path for path in file.parent.iterdir() if "damaged" in path.name and path.suffix == ".sqlite"]
    assert [path.read_bytes() for path in aside] == [bytes(content)]
    assert aside[0].name in store.problem
    assert store.predictions() == [PREDICTION]


@pytest.mark.parametrize("bad", [replace(PREDICTION, kind=None), replace(PREDICTION, kind=["a list"])])
def test_a_record_that_cannot_be_kept_is_reported_and_loses_nothing(file, bad):
    HistoryStore(file).add([PREDICTION])
    store = HistoryStore(file)
    store.add([replace(PREDICTION, kind="goes with it"), bad])
    assert "cannot be used" in store.problem
    store.add([replace(PREDICTION, kind="after")])
    assert [each.kind for each in store.predictions()] == [PREDICTION.kind, "after"]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_half_a_surrogate_pair_is_written_as_its_number(file):
    store = HistoryStore(file)
    store.add([replace(PREDICTION, basis="a \ud83d b")])
    assert store.problem == ""
    assert store.predictions()[0].basis == "a \\ud83d b"


def test_a_name_that_no_file_can_have_is_said_and_nothing_fails(tmp_path):
    store = HistoryStore(tmp_path / "a\0b" / "history.sqlite")
    store.add([PREDICTION])
    assert "cannot be used" in store.problem


def journal_mode(file):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("PRAGMA journal_mode").fetchone()[0]


def test_the_file_works_where_memory_cannot_be_shared_as_on_a_network(file):
    HistoryStore(file).add([PREDICTION])
    assert journal_mode(file) == "delete"


SINCE_FORMAT_5 = {"environment"}
SINCE_FORMAT_4 = {"run", *SINCE_FORMAT_5}
SINCE_FORMAT_3 = {"asked", "seconds", "baseline_seconds", "seeds", "break_even_steps", *SINCE_FORMAT_4}


@pytest.mark.parametrize(
    ("written", "missing", "live"),
    [
        (1, {"live", *SINCE_FORMAT_3}, "?"),
        (2, SINCE_FORMAT_3, ""),
        (3, SINCE_FORMAT_4, ""),
        (4, SINCE_FORMAT_5, ""),
    ],
)
def test_a_file_of_an_earlier_format_keeps_its_records_and_leaves_its_log(file, written, missing, live):
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        for record, table in ((PREDICTION, "predictions"), (TRIAL, "trials")):
            values = {name: value for name, value in asdict(record).items() if name not in missing}
            names = [
                f"{name} {'REAL' if isinstance(value, float) else 'TEXT NOT NULL'}"
                for name, value in values.items()
            ]
            connection.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(names)})")
            marks = ", ".join("?" * len(values))
            connection.execute(
                f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", [*values.values()]
            )
        connection.commit()
        connection.execute(f"PRAGMA user_version={written}")
    store = HistoryStore(file)
    now = replace(TRIAL, live="steady_allocator", asked="accuracy>=0.95", seconds=3.2, seeds=3.0)
    store.add([now])
    assert store.problem == ""
    assert store.predictions() == [replace(PREDICTION, live=live)]
    assert store.trials() == [replace(TRIAL, live=live), now]
    assert journal_mode(file) == "delete"


def test_a_folder_that_cannot_be_written_is_said_once_and_nothing_fails(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = HistoryStore(tmp_path / "file" / "history.sqlite")
    store.add([PREDICTION])
    assert store.trials() == []
    assert "cannot be used" in store.take_problem()
    store.add([PREDICTION])
    assert store.take_problem() == ""


def test_a_file_that_another_program_holds_is_given_up_after_a_while(file, monkeypatch):
    monkeypatch.setattr("accel.history.history_file.WAIT_S", 0.05)
    HistoryStore(file).add([PREDICTION])
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    store = HistoryStore(file)
    store.add([TRIAL])
    assert "locked" in store.problem
    holder.close()
    store.add([TRIAL])
    assert store.trials() == [TRIAL]


def test_a_file_of_a_later_version_is_left_as_it_is(file):
    HistoryStore(file).add([PREDICTION])
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version=99")
    store = HistoryStore(file)
    store.add([PREDICTION])
    assert "format 99" in store.problem
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM predictions").fetchone()[0] == 1


def test_the_file_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "other.sqlite"))
    assert history_path() == tmp_path / "other.sqlite"
    monkeypatch.delenv("ACCEL_HISTORY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert history_path() == tmp_path / "accel" / "history.sqlite"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert history_path() == Path.home() / ".local" / "share" / "accel" / "history.sqlite"


def test_without_a_home_no_history_is_kept_and_that_is_said(monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", "~nobody-of-this-name/history.sqlite")
    store = HistoryStore()
    store.add([PREDICTION])
    assert "No history is kept" in store.take_problem()


@pytest.mark.parametrize("word", ["off", "OFF", ""])
def test_the_history_can_be_off(monkeypatch, word):
    monkeypatch.setenv("ACCEL_HISTORY", word)
    store = HistoryStore()
    store.add([PREDICTION])
    assert store.path is None
    assert store.predictions() == []
    assert store.problem == ""


@pytest.mark.parametrize("was", [None, 0o644, 0o666])
def test_the_file_is_readable_by_its_user_alone(tmp_path, was):
    path = tmp_path / "history.sqlite"
    if was is not None:
        path.touch()
        path.chmod(was)
    HistoryStore(path).add([TRIAL])
    assert path.stat().st_mode & 0o777 == 0o600


FILLS = """
import resource, sys
from dataclasses import replace
from pathlib import Path
from accel.history import HistoryStore
from tests.history.test_history_store import TRIAL
file = Path(sys.argv[1])
store = HistoryStore(file)
store.add([TRIAL])
most = file.stat().st_size + 20_000
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))  # writing on fails, as on a full disk
written = 1
while written < 10_000 and store.add([replace(TRIAL, described="x" * 500)]):
    written += 1
print(written, store.problem)
"""


def test_a_full_disk_loses_no_row_that_was_written_and_is_reported(file):
    done = subprocess.run(
        [sys.executable, "-c", FILLS, str(file)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    written, problem = done.stdout.split(maxsplit=1)
    store = HistoryStore(file)
    assert 1 < int(written) < 10_000
    assert "cannot be used" in problem
    assert len(store.trials()) == int(written)
    assert store.add([TRIAL])  # there is room again
    assert store.problem == ""

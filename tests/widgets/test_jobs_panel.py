"""The panel of jobs: what a row shows and offers, and what its buttons do."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.job_folder import JobDescription, JobFolder, Launched
from accel.distributed.jobs.jobs_here import JobRow, all_jobs
from accel_widgets.jobs_panel import JobsPanel, row_traits

HOSTILE = '<img src=x onerror="window.hurt = true"><b>bold</b>'
RUNNING = JobRow("20261127-train-9d27", "running", "slurm, 2 nodes", 16, 75.0, step=120, loss=0.25)
DONE = JobRow("20261126-train-1a2b", "done", "mpirun on h1, h2", 8, 300.0, step=900, loss=0.125)
QUEUED = JobRow(
    "20261127-train-77aa", "queued", "slurm, 2 nodes", 16, 5.0, because="Queued in SLURM as job 4"
)


def rows(*jobs: JobRow) -> list[dict[str, object]]:
    return [row_traits(job) for job in jobs]


@pytest.fixture
def failed(tmp_path, monkeypatch) -> JobFolder:
    """A job whose launcher has ended without an answer of any rank."""
    monkeypatch.setattr("accel.distributed.jobs.jobs_here.folders", lambda: [tmp_path])
    folder = JobFolder.make(tmp_path, "train")
    folder.write_json("job.json", JobDescription(
        name=folder.name, asked="%%accel ddp", cluster=Cluster(), ranks=1, began_s=time.time(), host="here", versions={},
    ))  # fmt: skip
    folder.write_json("launched.json", Launched(pid=1, host="elsewhere"))
    folder.exit_status.write_text("1")
    folder.launcher_output.write_text("it fell over")
    return folder


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_job_has_a_row_in_words_with_what_may_be_done(show, page, scheme) -> None:
    page.emulate_media(color_scheme=scheme)
    view = show(JobsPanel, rows=rows(QUEUED, RUNNING, DONE))
    assert view.texts("job-step") == ["", "120", "900"]
    view.page.wait_for_function("() => model.sent.at(-1)?.seen === true")  # Python looks while it is seen
    assert view.texts("job-because")[0] == "Queued in SLURM as job 4"
    assert [view.texts(f"job-{word}") for word in ("stop", "cancel", "home", "remove")] == [
        ["Stop"], ["Cancel", "Cancel"], ["Bring home"], ["Remove"],
    ]  # fmt: skip


@pytest.mark.browser
def test_what_takes_something_away_is_pressed_twice_and_keys_keep_their_place(show) -> None:
    view = show(JobsPanel, rows=rows(RUNNING))
    cancel = view.page.get_by_test_id("job-cancel")
    cancel.press("Enter")
    assert cancel.inner_text() == "Sure?"
    assert [message for message in view.sent if "do" in message] == []
    cancel.press("Enter")
    assert {"do": "cancel", "name": RUNNING.name} in view.sent
    view.set(rows=rows(JobRow(RUNNING.name, "cancelled", RUNNING.where, 16, 80.0)))
    assert view.page.evaluate("() => document.activeElement.dataset.testid") == "job-logs"
    view.page.evaluate("cleanup()")
    assert view.page.evaluate("model.listening()") == 0


@pytest.mark.browser
def test_what_jobs_say_is_text_and_never_html(show) -> None:
    job = {
        **row_traits(RUNNING),
        "state": HOSTILE,
        "because": HOSTILE,
        "name": HOSTILE,
        "can": ["logs", HOSTILE],
    }
    view = show(JobsPanel, rows=[job], line=HOSTILE, logs=[[HOSTILE, HOSTILE]], logs_of=HOSTILE)
    assert view.texts("job-name") == view.texts("jobs-line") == [HOSTILE]
    assert view.page.evaluate("() => [document.querySelectorAll('img').length, window.hurt]") == [0, None]


def test_buttons_do_what_the_words_of_the_command_do(failed) -> None:
    panel = JobsPanel(all_jobs())
    assert [(row["word"], row["can"]) for row in panel.rows] == [("failed", ["logs", "remove"])]
    assert "exit status 1" in panel.rows[0]["because"]
    panel._told(panel, {"do": "logs", "name": failed.name}, None)
    assert (panel.logs, panel.logs_of) == ([["the launcher", "it fell over"]], failed.name)
    panel._told(panel, {"do": "remove", "name": failed.name}, None)
    assert (panel.rows, Path(failed.path).exists()) == ([], False)
    assert "is removed" in panel.line
    panel.close()


def test_a_refusal_is_told_in_the_panel(failed) -> None:
    panel = JobsPanel(all_jobs())
    panel._told(panel, {"do": "fly", "name": failed.name}, None)
    assert panel.is_error
    assert "fly" in panel.line
    panel.close()


def test_as_a_part_of_a_panel_it_asks_when_it_is_seen_and_when_there_may_be_another(
    failed, monkeypatch
) -> None:
    looked, has_looked = [], threading.Event()

    def noting(done=""):
        looked.append(threading.current_thread())
        has_looked.set()
        return all_jobs(done)

    monkeypatch.setattr("accel.distributed.jobs.jobs_here.all_jobs", noting)
    panel = JobsPanel()
    assert (panel.has_fold, panel.rows, looked) == (True, [], [])
    for told in (lambda: panel._told(panel, {"seen": True, "view": "one"}, None), panel.look_again):
        has_looked.clear()
        told()
        assert has_looked.wait(20)
    panel.close()
    assert threading.main_thread() not in looked
    assert [row["name"] for row in panel.rows] == [failed.name]

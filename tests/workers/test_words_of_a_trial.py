"""What a trial says of its end and of files, without workers."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.private_disk.files_seen import FilesSeen
from accel.workers.background_trial import BackgroundTrial
from accel.workers.staged_trial import StagedTrial
from accel.workers.trial import Trial


def test_a_steady_stage_that_was_cut_short_does_not_end_a_trial_whose_last_stage_was_whole():
    def ended_by(left_s=0.0, plans=(), **is_cut_short):
        stages = {
            name: SimpleNamespace(is_cut_short=cut, left_s=left_s, least_s=14.2)
            for name, cut in is_cut_short.items()
        }
        trial = Trial.__new__(Trial)  # one that is over, of which nothing but its stages is asked
        trial._stages, trial._state, trial._is_stopped, trial.is_out_of_time = stages, "done", False, False
        trial._over = Event()
        trial._over.set()
        trial.plans, trial._measured = list(plans), []
        return trial._what_ended_it([])

    assert ended_by(steady=True, notebook=False) == "every plan is decided"
    assert ended_by(steady=False, notebook=True) == "the time was up"
    assert ended_by(11.0, notebook=True) == ("another relaunch takes at least 14 s, and only 11 s were left")
    assert ended_by(plans=["channels_last"], notebook=False) == "every plan that was measured is decided"


def test_names_of_changed_files_are_safe_to_show(tmp_path):
    trial = SimpleNamespace(_files=FilesSeen.of(str(tmp_path)), _disks={"python"})
    (tmp_path / "\x1b[31mred\n.txt").write_text("")
    told = BackgroundTrial._changed_files(trial)
    assert "\\x1b[31mred\\n.txt" in told
    assert "\x1b" not in told


HEAP = "steps are faster in fresh processes, but may be slower in this notebook"
STARTING = "steps are faster, but starting the workers may cost more time than the faster steps save"


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["heap"], HEAP),
        (["starting", "starting"], STARTING),
        (["starting", "heap", "starting"], f"{HEAP}; {STARTING}"),
        (["heap", ""], "3 relaunches left at least one plan undecided"),
        (
            ["first epoch"],
            "the plan gains only from the second epoch on, and the trial ran fewer than two epochs",
        ),
        ([], ""),
    ],
)
def test_rows_that_are_open_for_different_reasons_get_a_clause_for_each(reasons, said):
    shown = Interval(1.2, 1.1, 1.3, 3, 40)
    rows = [
        Comparison("plan", "undecided", shown, None, Quality("same"), "exact", state="done", open_because=why)
        for why in reasons
    ]
    assert StagedTrial._undecided(None, rows, SimpleNamespace(relaunches=3)) == said

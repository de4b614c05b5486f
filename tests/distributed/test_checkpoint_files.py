"""Checkpoint files among files that somebody else has put there."""

from __future__ import annotations

import os

import pytest
import torch

from accel.distributed.checkpoints.checkpoint_file import FORMAT, CheckpointFolder
from accel.errors import AccelError

OF_A_RANK = {"entry": {}, "generators": {}, "now": {}, "variables": {}, "loss_scale": None}
CONTENTS = {
    "cell": "0", "batch": "global", "plan": "", "step": 40, "world_size": 2, "position": [{"taken": 3}], "drives": [True],
    "beginning": {}, "ranks": [OF_A_RANK, OF_A_RANK],
}  # fmt: skip


def test_what_was_written_is_read(tmp_path):
    folder = CheckpointFolder(tmp_path)
    folder.write(CONTENTS)
    folder.wait()
    assert folder.newest([]) == {"format": FORMAT, **CONTENTS}
    folder.finish()
    assert CheckpointFolder(tmp_path).newest([]) is None


@pytest.mark.parametrize("name", [".step-000000040.pt.partial", "step-000000040.pt", "finished"])
@pytest.mark.parametrize("is_link", [True, False], ids=["link", "file"])
def test_a_link_or_file_that_lies_in_its_place_is_replaced_and_never_followed(tmp_path, name, is_link):
    mine, there = tmp_path / "mine.txt", tmp_path / "checkpoints"
    mine.write_text("mine")
    there.mkdir()
    folder = CheckpointFolder(there)
    (there / name).symlink_to(mine) if is_link else (there / name).write_text("of a run that was killed")
    folder.write(CONTENTS)
    folder.wait()
    folder.finish()
    assert mine.read_text() == "mine"
    assert torch.load(there / "step-000000040.pt", weights_only=True)["step"] == 40
    assert not (there / "finished").is_symlink()


def test_a_run_whose_end_cannot_be_written_down_says_that_the_next_would_go_on_from_it(tmp_path):
    folder = CheckpointFolder(tmp_path)
    folder.write(CONTENTS)
    folder.wait()
    (tmp_path / "finished").mkdir()
    with pytest.raises(AccelError, match="Empty the folder: else the next run of this cell goes on from"):
        folder.finish()


def wrong():
    """The contents with one thing wrong."""
    for field in CONTENTS:
        yield f"without {field}", {name: value for name, value in CONTENTS.items() if name != field}
        yield f"{field} of another kind", {**CONTENTS, field: torch.zeros(1)}
    for field in ("entry", "generators", "now", "variables"):
        part = {name: value for name, value in OF_A_RANK.items() if name != field}
        yield f"a rank without {field}", {**CONTENTS, "ranks": [OF_A_RANK, part]}
    yield "a rank too few", {**CONTENTS, "ranks": [OF_A_RANK]}
    yield "a step before the first", {**CONTENTS, "step": -1}


@pytest.mark.parametrize("contents", [pytest.param(each, id=name) for name, each in wrong()])
def test_valid_format_with_wrong_fields_is_not_one_of_ours(tmp_path, contents):
    torch.save({"format": FORMAT, **contents}, tmp_path / "step-000000040.pt")
    with pytest.raises(AccelError, match="was not written by %%accel ddp"):
        CheckpointFolder(tmp_path).newest([])


@pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away, which root alone may")
def test_a_folder_of_somebody_else_is_refused_unless_root_writes(tmp_path, monkeypatch):
    os.chown(tmp_path, 4242, 4242)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    folder = CheckpointFolder(tmp_path)
    folder.write(CONTENTS)
    with pytest.raises(AccelError, match="belongs to another user; make a folder of your own"):
        folder.wait()

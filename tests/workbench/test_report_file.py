"""One HTML file with all that a workbench knows: complete in itself, and no other file is written over."""

from __future__ import annotations

import re

import pytest

from accel.errors import AccelError
from accel.workbench.report_file import write_report
from accel.workbench.workbench import Workbench
from tests.workbench.test_keep_and_undo_words import CELL, small_training


@pytest.fixture
def bench():
    made = Workbench(small_training(), spare_workers=0)
    yield made
    made.close()


def test_a_report_needs_no_other_file_and_holds_the_profile_and_what_is_kept_as_plain_code(bench, tmp_path):
    bench.profile(CELL)
    bench.keep("fused_optimizer")
    written = write_report(bench, tmp_path / "report.html")
    assert written.parts == ("What is kept", "Plain PyTorch", "Profile", "Machine")
    assert str(written).startswith(f"Written to {tmp_path}/report.html (")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert written.file_bytes == len(page.encode())
    assert all(f">{part}</h2>" in page for part in written.parts)
    assert "fused=True" in page
    assert "ms a step" in page
    assert bench.machine.cpu_model in page
    assert re.findall(r"<(?:script|link|img|iframe)\b|https?://|\burl\(", page) == []
    bench.undo()
    assert write_report(bench, tmp_path / "report.html").parts == ("What is kept", "Profile", "Machine")


def test_another_file_is_replaced_only_if_that_is_wanted_and_a_folder_never(bench, tmp_path):
    with pytest.raises(AccelError, match="no cell was profiled yet"):
        write_report(bench, tmp_path / "report.html")
    bench.profile(CELL)
    thesis = tmp_path / "thesis.html"
    thesis.write_text("<title>years of work</title>")
    with pytest.raises(AccelError, match="it is no report of accel"):
        write_report(bench, thesis)
    assert "years" in thesis.read_text()
    for place in (tmp_path, "/dev/null"):
        with pytest.raises(AccelError, match="that is no file"):
            write_report(bench, place, force=True)
    for place in (tmp_path / "missing" / "report.html", "a\0b.html", "x" * 5000):
        with pytest.raises(AccelError, match="it cannot be written"):
            write_report(bench, place)
    assert "Profile" in write_report(bench, thesis, force=True).parts

"""nbgrader itself grades a lab: generated, released, fetched, submitted, collected, graded, exported, each by its program."""

from __future__ import annotations

import csv
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from accel.labs.course.submission import COLUMNS

pytestmark = pytest.mark.whole
LAB = Path(__file__).parents[2] / "notebooks" / "labs" / "10_multiple_gpus.ipynb"

CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "accel"
c.CourseDirectory.root = {course!r}
c.Exchange.root = {exchange!r}
c.Exchange.timezone = "UTC"
c.ExecutePreprocessor.timeout = 300
c.ClearSolutions.enforce_metadata = False
"""
ANSWERS = {
    "four-gpus": "my_four = (0, 1, 2, 3)",
    "efficiency": "efficiency = {count: 707 / seconds / count for count, seconds in {1: 707, 2: 393, 4: 208, 8: 109}.items()}",
}


def solve(path, answers):
    """Write the answers into the cells before their checks, as a student would."""
    book = nbformat.read(path, as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    for before, check in itertools.pairwise(code):
        for name, answer in answers.items():
            if check.source.startswith(f'lab.check("{name}"'):
                before.source = answer
    nbformat.write(book, path)


def test_a_class_of_two_is_graded_by_nbgrader(tmp_path):
    course, exchange, home = (tmp_path / name for name in ("course", "exchange", "home"))
    source = course / "source" / "lab"
    source.mkdir(parents=True)
    exchange.mkdir()
    exchange.chmod(0o777)
    home.mkdir()
    shutil.copy(LAB, source / "lab.ipynb")
    (tmp_path / "nbgrader_config.py").write_text(CONFIG.format(course=str(course), exchange=str(exchange)))
    environment = os.environ | {
        "ACCEL_LABS": "quick", "ACCEL_HISTORY": str(home / "history.sqlite"), "JUPYTER_CONFIG_DIR": str(home / "jupyter"),
        "JUPYTER_DATA_DIR": str(home / "data"), "PYTHONPATH": os.pathsep.join(sys.path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),  # nbgrader calls alembic by its name
    }  # fmt: skip

    def nbgrader(*words):
        run = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr[-4000:]

    nbgrader("generate_assignment", "lab")
    released = nbformat.read(course / "release" / "lab" / "lab.ipynb", as_version=4)
    assert "my_four = (0, 1, 4, 5)" in [cell.source for cell in released.cells]  # the starting point stays
    nbgrader("release_assignment", "lab")
    nbgrader("fetch_assignment", "lab")
    solve(tmp_path / "lab" / "lab.ipynb", ANSWERS)
    nbgrader("submit", "lab")
    nbgrader("collect", "lab")
    # The second student's folder is put where nbgrader collects to: one account cannot submit for two.
    (student,) = [each.name for each in (course / "submitted").iterdir()]
    shutil.copytree(course / "release" / "lab", course / "submitted" / "idle" / "lab")
    nbgrader("autograde", "lab")
    nbgrader("export", "--to", str(tmp_path / "grades.csv"))
    with (tmp_path / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert float(rows[student]["score"]) == 4.0  # two of three exercises, two points each
    assert float(rows[student]["max_score"]) == 6.0
    assert float(rows["idle"]["score"]) == 0.0
    assert set(COLUMNS) <= set(rows["idle"])
    assert not (home / "history-labs.sqlite").exists()  # nothing is kept while nbgrader grades

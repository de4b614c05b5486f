"""What a trial's cell may do to files: in an interpreter of its own, because an audit hook cannot be taken back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import os, shutil, sys, tempfile
from accel.errors import AccelError
from accel.workers.private_files import PrivateFiles

PrivateFiles(sys.argv[1]).install()
"""


def run(tmp_path, code):
    """Run code in the user's folder, with a private folder and a temporary folder beside it."""
    for name in ("private", "temporary", "user"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "user" / "results.txt").write_text("as it was")
    return subprocess.run(
        [sys.executable, "-c", BEGIN + textwrap.dedent(code), str(tmp_path / "private")],
        cwd=tmp_path / "user", env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_what_is_written_is_read_back_and_the_users_file_stays_as_it_was(tmp_path):
    done = run(
        tmp_path,
        """
        with open("results.txt", "a") as file:
            file.write(" and more")
        print(open("results.txt").read())
        """,
    )
    assert done.stdout == "as it was and more\n"
    assert (tmp_path / "user" / "results.txt").read_text() == "as it was"


@pytest.mark.parametrize(
    "line",
    [
        "os.remove('results.txt')",
        "os.rename('results.txt', 'other.txt')",
        "os.replace(tempfile.mkstemp()[1], 'results.txt')",
        "os.truncate('results.txt', 0)",
        "shutil.move(tempfile.mkstemp()[1], 'results.txt')",
        "shutil.rmtree('../user')",
        "os.unlink('results.txt', dir_fd=os.open('.', os.O_RDONLY))",
    ],
)
def test_removing_or_replacing_the_users_files_is_refused_with_their_name(tmp_path, line):
    done = run(tmp_path, line)
    assert "a trial changes nothing of yours" in done.stderr
    assert (tmp_path / "user" / "results.txt").read_text() == "as it was"


def test_a_temporary_folder_is_cleared_as_compilers_do_on_their_first_run(tmp_path):
    done = run(
        tmp_path,
        """
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "below"))
            with open(os.path.join(folder, "below", "header.hpp"), "w") as file:
                file.write("//")
        print(os.path.exists(folder))
        """,
    )
    assert done.stdout == "False\n", done.stderr

"""The program `accel`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import accel
from accel.cli import main
from accel.machine import read_machine
from accel.printing import nearest

MATRIX = Path(__file__).parent / "machine/topology/course_8_gpus.txt"


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_machine_as_text_and_as_json(capsys) -> None:
    assert read_machine().line in run(capsys, "machine")[1]
    assert json.loads(run(capsys, "machine", "--json")[1])["cpu_model"] == read_machine().cpu_model


@pytest.mark.parametrize("command", ["doctor", "accelerations", "help"])
def test_what_prints_text_prints_json_too(capsys, command: str) -> None:
    status, text, _ = run(capsys, command)
    assert status == 0
    assert text.strip()
    assert json.loads(run(capsys, command, "--json")[1])


def test_no_command_is_help(capsys) -> None:
    assert run(capsys)[1] == run(capsys, "help")[1]


@pytest.mark.parametrize("command", ["profile", "try", "keep", "undo", "status", "export", "graph", "panel"])
def test_a_command_that_needs_a_notebook_says_so_and_what_to_do(capsys, command: str) -> None:
    status, out, err = run(capsys, command, *(["channels_last"] if command == "try" else []))
    assert (status, out) == (2, "")
    assert "%load_ext accel" in err
    assert f"accel.{'try_' if command == 'try' else command}()" in err


def test_a_wrong_word_gets_the_nearest_right_one(capsys) -> None:
    assert run(capsys, "machin") == (2, "", run(capsys, "machin")[2])
    assert "Did you mean 'machine'?" in run(capsys, "machin")[2]


def test_help_of_a_command(capsys) -> None:
    assert run(capsys, "machine", "-h")[1].startswith("usage: accel machine [--json]")


def test_the_program_is_a_module_as_well() -> None:
    shown = subprocess.check_output([sys.executable, "-m", "accel.cli", "--version"], text=True)
    assert shown.strip() == f"accel-workbench {accel.__version__}"


@pytest.mark.parametrize("words", [["-o", "x"], ["--out=x"]])
@pytest.mark.parametrize("command", ["topology", "machine", "history"])
def test_a_shell_has_no_variables_and_is_told_what_to_do_instead(
    capsys, command: str, words: list[str]
) -> None:
    status, _, err = run(capsys, command, *words)
    assert status == 2
    assert f"accel {command} --json > {command}.json" in err
    assert "--out" not in run(capsys, command, "--jsn")[2]
    assert "Did you mean '--json'?" in run(capsys, command, "--jsn")[2]


@pytest.mark.parametrize(("words", "is_told"), [([], True), (["--from", "-"], False)])
def test_a_matrix_at_standard_input_that_nobody_asked_for_is_not_read(
    words: list[str], is_told: bool
) -> None:
    program = [sys.executable, "-m", "accel.cli", "topology", *words]
    ended = subprocess.run(program, input=MATRIX.read_bytes(), capture_output=True)
    assert (b"Node A" in ended.stdout) is not is_told
    assert (b"accel topology --from -" in ended.stderr) is is_told


def test_a_topology_is_written_as_a_page(capsys, tmp_path) -> None:
    path = tmp_path / "topology.html"
    assert run(capsys, "topology", "--from", str(MATRIX), "--html", str(path))[0] == 0
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<td") == 65  # the corner above the rows is one: a heading without words is none
    assert "<script" not in page
    assert "Two NVLinks: GPU0–GPU3" in page
    assert "cannot" not in run(capsys, "topology", "--from", str(MATRIX), "--html", str(path))[2]
    status, _, err = run(capsys, "topology", "--html", str(tmp_path / "none" / "t.html"))
    assert (status, "Give a path in a folder" in err) == (2, True)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_letters_that_the_output_lacks_are_printed_as_near_ones(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    program = [sys.executable, "-m", "accel.cli", "topology", "--from", str(MATRIX)]
    shown = subprocess.check_output(program, env=environment).decode(encoding)
    assert "`- Node A" in shown.replace("|-", "`-")
    assert "?" not in shown


def test_near_letters_are_as_many() -> None:
    assert nearest("├─ 2 µs → ½…", "ascii") == "|- 2 us > 1."
    assert nearest("├ µ…", "cp1252") == "| µ…"
    assert nearest("漢", "ascii") == "?"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, as Linux has it")
def test_a_full_disk_is_told_in_words() -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "accel.cli", "help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 1
    assert "cannot be written (No space left on device)" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_reader_that_reads_no_further_ends_the_program_quietly() -> None:
    program = subprocess.Popen(
        [sys.executable, "-m", "accel.cli", "help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.close()
    assert program.stderr is not None
    assert program.stderr.read() == ""
    program.stderr.close()
    assert program.wait() == 141

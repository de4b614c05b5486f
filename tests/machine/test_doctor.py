"""doctor says what is there, what is missing, why it matters and how to get it."""

from __future__ import annotations

import re
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

import accel
import accel_widgets
from accel.machine import read_machine
from accel.machine.installation import PACKAGES, doctor


def test_every_part_says_what_it_enables_and_every_missing_one_how_to_get_it() -> None:
    for part in doctor().parts:
        assert part.enables
        assert part.found if part.is_present else part.how_to_get.endswith(".")


@pytest.mark.parametrize(("name", "module"), [("torch", "torch"), ("plotly", "plotly"), ("pandas", "pandas")])
def test_a_part_is_present_when_it_can_be_imported(name: str, module: str) -> None:
    part = next(part for part in doctor().parts if part.name == name)
    assert part.is_present is (find_spec(module) is not None)


def test_only_packages_that_some_source_file_imports_are_listed() -> None:
    sources = "\n".join(
        path.read_text()
        for package in (accel, accel_widgets)
        for path in Path(package.__file__).parent.rglob("*.py")
        if path.name != "installation.py"
    )
    unused = [module for _, module, *_ in PACKAGES if not re.search(rf"(import|from) {module}\b", sources)]
    assert unused == []


def test_the_headers_that_compiling_needs_are_a_part(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path))
    machine = read_machine(again=True)
    assert not machine.has_python_header
    assert "Python.h" in [part.name for part in doctor().missing]
    (tmp_path / "Python.h").write_text("")
    assert read_machine(again=True).has_python_header
    assert "Python.h" not in [part.name for part in doctor().missing]
    monkeypatch.undo()
    read_machine(again=True)  # what was read is kept for the tests after this one


def test_the_text_tells_ok_from_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    text = str(accel.doctor())
    assert "OK       torch" in text
    assert "missing  NVML: would enable GPU names, memory and links. pip install nvidia-ml-py." in text


def test_another_module_named_accel_is_pointed_out(monkeypatch, tmp_path) -> None:
    assert doctor().notes == ()
    (tmp_path / "accel.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(tmp_path / "accel.py") in doctor().notes[0]


def test_it_is_a_table() -> None:
    installation = doctor()
    assert list(installation.to_dataframe()["name"]) == [part.name for part in installation.parts]
    assert "<table" in installation._repr_mimebundle_()["text/html"]

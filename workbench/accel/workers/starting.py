"""The message for a worker of another interpreter, and what that has to be for the notebook's functions to run in it."""

from __future__ import annotations

import sys

import msgspec

from accel.environments.user_folders import own_folders
from accel.errors import AccelError
from accel.processes.child_main import Hello
from accel.processes.start import Start
from accel.techniques.started.displayed import DISPLAY, displayed
from accel.workers.messages import Load
from accel.workers.variant_worker import Variant


def load_of(variant: Variant, load: Load) -> Load:
    """The message for this variant: its plan, and where an interpreter of its own finds the user's modules.

    >>> load_of(Variant(Plan.parse("channels_last"), "steady"), load).plan
    'channels_last'
    """
    load = msgspec.structs.replace(load, plan=variant.label, allocator=variant.allocator)
    if not variant.start.python:
        return load
    return msgspec.structs.replace(load, import_path=own_folders(load.import_path), keeps_path=True)


def displayed_with(start: Start, printed: str) -> str:
    """What the runtimes that a worker loaded say of the variables that it was started with; empty where they say nothing.

    >>> displayed_with(Start((("OMP_PROC_BIND", "close"), DISPLAY)), worker.output.text)
    "OMP_PROC_BIND='CLOSE' by GNU's runtime"
    """
    asked = dict(start.variables)
    said = [
        (f"{name}={block.settings[name]!r}", "Intel's" if block.is_intel else "GNU's")
        for block in (displayed(printed) if DISPLAY[0] in asked else ())
        for name in block.settings
        if name in asked and name != DISPLAY[0]
    ]
    return ", ".join(f"{setting} by {whose} runtime" for setting, whose in said)


def check_python(hello: Hello, environment: str) -> None:
    """Functions travel as bytecode, which another minor version of Python cannot run. Raises AccelError."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if hello.python.split(".")[:2] != own.split("."):
        raise AccelError(
            f"A trial in {environment}", because=f"it has Python {hello.python}, and functions travel as bytecode of {own}",
            do=f"Make an environment with Python {own}: %accel env create makes them so.",
        )  # fmt: skip

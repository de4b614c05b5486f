"""The message for a worker of another interpreter, and what the runtimes that it loaded say of how it was started."""

from __future__ import annotations

import msgspec

from accel.environments.user_folders import own_folders
from accel.processes.start import Start
from accel.techniques.started.displayed import DISPLAY, displayed
from accel.workers.messages import Load
from accel.workers.variant_worker import Variant

_NO_EVIDENCE = (
    DISPLAY[0],
    "OMP_WAIT_POLICY",
)  # GNU's runtime shows the second as PASSIVE where nothing is set, too


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
        if name in asked and name not in _NO_EVIDENCE
    ]
    return ", ".join(f"{setting} by {whose} runtime" for setting, whose in said)

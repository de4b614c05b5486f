"""A child that measures, so that nothing of it is left in the user's process; it says each part as soon as it is known."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from accel.processes.child import Child
from accel.processes.kernel_folder import KernelFolder
from accel.processes.start import Start


class Measured(msgspec.Struct, tag="measured", frozen=True):
    """Child → kernel: a part of what it measured, as plain values."""

    values: dict[str, Any]


def measuring_child(module: str, *words: str, environment: Mapping[str, str] | None = None) -> Child:
    """Start it; it finds modules where this process does.

    >>> child = measuring_child("accel.machine.peaks.gpus")
    >>> child.channel.receive(60.0)[0].values; child.close()
    """
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(environment or {})}
    start = Start(tuple(variables.items()))
    return Child(module, *words, incoming=Measured, folder=KernelFolder("peaks"), start=start)

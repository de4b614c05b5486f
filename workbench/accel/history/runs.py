"""The name of a trial in the history, by which a later kernel knows whether it goes on."""

from __future__ import annotations

import os
import uuid

import psutil


def run_name() -> str:
    """A name that no other trial has; it holds the process, and when that began.

    >>> len(run_name().split(":"))
    3
    """
    return f"{uuid.uuid4().hex}:{os.getpid()}:{int(psutil.Process().create_time())}"


def goes_on(run: str) -> bool:
    """Whether the process that runs it is there still; pids come round again, so its beginning is compared too.

    >>> goes_on(run_name())
    True
    """
    _, _, process = run.partition(":")
    pid, _, began = process.partition(":")
    try:
        return int(psutil.Process(int(pid)).create_time()) == int(began)
    except (ValueError, psutil.Error):
        return False

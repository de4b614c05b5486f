"""A launcher that runs on this machine: a process of its own, which the notebook's end does not end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil

from accel.distributed.jobs.job_folder import JobDescription, JobFolder, Launched
from accel.distributed.jobs.launchers.launcher import LaunchState
from accel.processes.process_tree import living_descendants

ENDED_WELL = "it ended well"
_SILENT_S = 1800.0
_GRACE_S = 5.0  # mpirun tells the other machines, torchrun its workers
_started: dict[int, subprocess.Popen[bytes]] = {}  # by this process, which has to wait for them


class ProcessHere:
    """What launchers have in common that are a process of this machine, and end their ranks themselves.

    >>> launched = Torchrun().start(folder, description)
    """

    def start(self, folder: JobFolder, description: JobDescription) -> Launched:
        """Run launch.sh."""
        return start_here(folder)

    def look(self, launched: Launched, folder: JobFolder) -> LaunchState:
        """Whether it runs."""
        return look_here(launched, folder)

    def cancel(self, launched: Launched, folder: JobFolder) -> None:
        """End it, with its ranks on other hosts."""
        cancel_here(launched, folder)


def start_here(folder: JobFolder) -> Launched:
    """Run launch.sh in a session of its own."""
    with open(os.open(folder.launcher_output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        process = subprocess.Popen(
            ["/bin/bash", str(folder.launch_script)], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    _started[process.pid] = process
    return Launched(pid=process.pid, start=start_of(process.pid), host=socket.gethostname())


def start_of(pid: int) -> str:
    """When a process began, in ticks since the system did, and which start of the system that was; no clock changes it.

    >>> start_of(os.getpid()) == start_of(os.getpid())
    True
    """
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{ticks} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    except (OSError, IndexError):
        return ""


def look_here(launched: Launched, folder: JobFolder) -> LaunchState:
    """Whether it runs, and with what exit status it ended."""
    if folder.exit_status.exists():
        return LaunchState("ended", how_it_ended(folder), launched.host)
    if launched.host != socket.gethostname():
        return _look_from_afar(launched, folder)
    if _process(launched) is not None:
        return LaunchState("running", hosts=launched.host)
    return LaunchState("ended", how_it_ended(folder), launched.host)


def _look_from_afar(launched: Launched, folder: JobFolder) -> LaunchState:
    """Of another machine, as a notebook's own may be after a restart: by when its ranks last told something."""
    told_s = max(
        (file.stat().st_mtime for file in folder.ranks.glob("*.jsonl")), default=folder.path.stat().st_mtime
    )
    silent_s = time.time() - told_s
    if silent_s > _SILENT_S:
        return LaunchState(
            "ended", f"nothing was heard of it for {silent_s / 60:,.0f} minutes", launched.host
        )
    return LaunchState("running", hosts=launched.host)


def how_it_ended(folder: JobFolder) -> str:
    """The exit status that launch.sh wrote, in words."""
    with contextlib.suppress(OSError):
        status = folder.exit_status.read_text().strip()
        if not status:
            return "it could not say how it ended"
        if status == "0":
            return ENDED_WELL
        return f"it ended with exit status {status}{_of_signal(status)}"
    return "it was killed before it could say how it ended"


def _of_signal(status: str) -> str:
    if status.isdigit() and int(status) > 128:
        with contextlib.suppress(ValueError):
            return f" ({signal.Signals(int(status) - 128).name})"
    return ""


def cancel_here(launched: Launched, folder: JobFolder) -> None:
    """End the launcher, politely first, and what it started."""
    if launched.host != socket.gethostname():
        return  # its ranks are told by a file in the job's folder
    process = _process(launched)
    if process is None:
        return
    below = living_descendants(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    until = time.monotonic() + _GRACE_S
    while time.monotonic() < until and (_process(launched) is not None or any(map(_lives, below))):
        time.sleep(0.05)
    for each in [*below, *([process] if _process(launched) is not None else [])]:
        with contextlib.suppress(psutil.Error):
            each.kill()  # psutil looks at the time of its start: the number may be another process's by now


def _process(launched: Launched) -> psutil.Process | None:
    """The very process, if it still runs."""
    own = _started.get(launched.pid)
    if own is not None and own.poll() is not None:
        return None
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(launched.pid)
        if start_of(launched.pid) == launched.start and _lives(found):
            return found
    return None


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False

"""The first step of one process, taken in a child that is forked for it: nothing that the cell does stays in its parent."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import psutil

from accel.distributed.first_step.recorded_step import imports_of, save
from accel.distributed.ranks.rank_messages import RunRequest
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_place import RankPlace
from accel.errors import first_line
from accel.private_disk import PrivateDisk
from accel.processes.kernel_folder import own_folder
from accel.processes.process_tree import living_descendants
from accel.workload.memory_file import MemoryFile


class OneProcess:
    """Takes first steps, one after the other; SIGTERM ends the child that takes one, and not its parent.

    >>> OneProcess().take(request, blob, memory)

    The parent has imported torch and computed nothing, so that a fork of it is as a fresh interpreter.
    """

    def __init__(self) -> None:
        self._child = 0
        self._to_import: list[str] = []
        signal.signal(signal.SIGTERM, self._end)

    def take(self, request: RunRequest, blob: bytes, memory: MemoryFile) -> None:
        """Wait until a child has written the step to the request's file, or why there is none."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until the child is known, who ends by it
        self._child = os.fork()
        if not self._child:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            _in_child(request, blob, memory)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        memory.close()
        _, status = os.waitpid(self._child, 0)
        self._child = 0
        with contextlib.suppress(OSError):  # the run is over, and its folder gone
            if status and not os.path.exists(request.reference):
                save("the process that took that step alone died", request.reference)
        for each in living_descendants():  # what the cell started
            with contextlib.suppress(psutil.Error):
                each.kill()
        self._to_import = imports_of(request.reference) or self._to_import

    def learn(self, is_wanted: Callable[[], bool]) -> None:
        """Import the libraries that the last child imported: the next one has them when it is forked, as warm ranks do.

        What is not imported when the next step `is_wanted` waits for the next time.
        """
        for name in self._to_import:
            if is_wanted():
                return
            if name not in sys.modules:
                with contextlib.suppress(Exception):  # the child will raise it in the user's own line
                    importlib.import_module(name)

    def _end(self, *_: object) -> None:
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)


def _in_child(request: RunRequest, blob: bytes, memory: MemoryFile) -> NoReturn:
    from accel.distributed.cells.carrying_out import carry_out
    from accel.distributed.ranks.process_group import met_at_file

    why = "in one process the cell ended before an optimizer stepped"
    try:
        disk = PrivateDisk(own_folder())
        store = met_at_file(request.rendezvous, 1)
        carry_out(request, blob, memory, RankPage(1), RankPlace.of_one_machine(0, 1), store, disk)
    except BaseException as error:  # whatever the user's code raises
        why = f"in one process the cell raised {type(error).__name__}: {first_line(error)}"
    finally:
        with contextlib.suppress(OSError):  # no room for it: then the ranks do without
            save(why, request.reference)
        os._exit(0)

"""In a rank: load the backend and meet the other ranks. All of them take oneCCL, or none does, and the reason is reported."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType
from typing import Any

from accel.distributed.oneccl.built import MODULE, build_folder, why_not_usable
from accel.distributed.oneccl.leftovers import note_this_process
from accel.errors import first_line

NAME = "ccl"
_MEETING_S = 30.0  # more than the ranks of one machine need to meet, and less than a user's timeout may be
_REMARK = b"CCL_WARN| value of CCL_LOG_LEVEL changed"  # at descriptor 1, where the cell's own prints go
_prepared: list[Any] = []  # the backend that init_process_group is about to ask for


def join(store: Any, rank: int, ranks: int, timeout: timedelta) -> tuple[str, bool]:
    """Prepare `init_process_group("ccl")` for this run; gives why the ranks cannot, the same text on each.

    >>> join(store, rank=0, ranks=2, timeout=timedelta(seconds=60))
    ('', False)

    And whether a thread of oneCCL may still be meeting the others, which nothing can end but the end of the process.
    """
    import torch.distributed as dist

    module, why = None, why_not_usable()
    if not why:
        try:
            module = loaded(str(build_folder()), rank=rank, ranks=ranks)
        except (ImportError, OSError, RuntimeError) as error:
            why = first_line(error)
    if why := _agreed(store, "loaded", why, rank, ranks):
        return why, False
    assert module is not None
    note_this_process()
    _prepared.clear()
    try:
        meeting = dist.PrefixStore("ccl", store)  # type: ignore[attr-defined]
        patience = min(timeout, timedelta(seconds=_MEETING_S))
        _prepared.append(module.create(meeting, rank, ranks, timeout, patience))
    except RuntimeError as error:
        why = first_line(error)
    why = _agreed(store, "met", why, rank, ranks)
    if why:
        _prepared.clear()
    elif not hasattr(dist.Backend, NAME.upper()):

        def made(
            store: Any, rank: int, ranks: int, timeout: timedelta
        ) -> Any:  # groups of the cell's own come without one
            return _prepared.pop() if _prepared else module.create(store, rank, ranks, timeout, timeout)

        dist.Backend.register_backend(NAME, made, devices=["cpu"])
    return why, bool(why)


def loaded(folder: str, *, rank: int, ranks: int) -> ModuleType:
    """The compiled backend, with oneCCL initialised; raises where one of its libraries cannot be loaded."""
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    import torch  # noqa: F401  # its libraries are the backend's as well

    _set_environment(folder, rank, ranks)
    spec = importlib.util.spec_from_file_location(MODULE, os.path.join(folder, f"{MODULE}.so"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with _without_its_remark():
        module.load()
    sys.modules[MODULE] = module
    return module


@contextmanager
def _without_its_remark() -> Iterator[None]:
    """Leave out that its warnings are off, which oneCCL would warn of; whatever else it prints is printed."""
    sys.stdout.flush()
    original = os.dup(1)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(original, 1)
            os.close(original)
            aside.seek(0)
            lines = [line for line in aside if line.strip() and _REMARK not in line]
            sys.stdout.write(b"".join(lines).decode(errors="replace"))
            sys.stdout.flush()


def _set_environment(folder: str, rank: int, ranks: int) -> None:
    """oneCCL reads it as it is initialised. Ranks meet by torch's store and talk by shared memory: nothing listens on a port."""
    os.environ.update(
        CCL_PROCESS_LAUNCHER="none", CCL_LOCAL_RANK=str(rank), CCL_LOCAL_SIZE=str(ranks),
        CCL_ATL_TRANSPORT="ofi", CCL_ATL_SHM="1", FI_PROVIDER="shm", FI_PROVIDER_PATH=folder,
    )  # fmt: skip
    wanted = {
        # Its threads wait asleep: those that spin take the cores that ranks compute on, and were far slower than gloo.
        "CCL_YIELD": "sleep", "CCL_SPIN_COUNT": "1",
        # By itself its thread takes the last CPUs of all, which are those of other ranks. The list has an entry for each rank.
        "CCL_WORKER_AFFINITY": ",".join([str(max(os.sched_getaffinity(0)))] * ranks),
        "CCL_LOG_LEVEL": "error",  # it warns of names cut short whenever one is shorter than the most that there could be
    }  # fmt: skip
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def _agreed(store: Any, about: str, why: str, rank: int, ranks: int) -> str:
    """The reason of the first rank that has one, known to all; each waits for what the others say."""
    store.set(f"accel-ccl/{about}/{rank}", why or "ok")
    said = [store.get(f"accel-ccl/{about}/{each}").decode() for each in range(ranks)]
    reasons = [f"rank {each}: {text}" for each, text in enumerate(said) if text != "ok"]
    return reasons[0] if reasons else ""

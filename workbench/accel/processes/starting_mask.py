"""The CPUs that a process could use before OpenMP bound its main thread to one of them."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from accel.errors import AccelError

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
NOT_BINDING = ("none", "disabled")  # of KMP_AFFINITY, alone or after modifiers
_OPENMP = re.compile(r"/.*/lib(?:gomp|iomp5|omp)[-.\w]*\.so[.\w]*$")


def binding_variables() -> tuple[tuple[str, str], ...]:
    """The variables in this process's environment that tell OpenMP to bind threads; not those that tell it not to."""
    return _binding(os.environ)


def unbind() -> None:
    """Take these variables out of this process's environment: it has CPUs of its own, and has not loaded OpenMP yet."""
    for name in BINDING:
        os.environ.pop(name, None)


def narrowing_variables() -> tuple[tuple[str, str], ...]:
    """Those of them that took CPUs away: none where the process began with one CPU, by taskset or in a container.

    >>> narrowing_variables()           # under OMP_PROC_BIND=close
    (('OMP_PROC_BIND', 'close'),)
    """
    variables = binding_variables()
    return variables if variables and len(starting_mask()) > 1 else ()


def variables_of(pid: int, proc: Path | str = "/proc") -> tuple[tuple[str, str], ...]:
    """The same of another process, as it was started; empty where the system does not let us look."""
    try:
        told = (Path(proc) / str(pid) / "environ").read_bytes().decode(errors="replace")
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return ()
    found = dict(each.partition("=")[::2] for each in told.split("\0"))
    return _binding(found)


def _binding(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    told = {name: environment[name] for name in BINDING if environment.get(name)}
    if told.get("OMP_PROC_BIND", "").strip().lower() == "false":  # then places bind nothing either
        told = {name: value for name, value in told.items() if not name.startswith("OMP_")}
    if set(told.get("KMP_AFFINITY", "").lower().replace(" ", "").split(",")) & set(NOT_BINDING):
        del told["KMP_AFFINITY"]
    return tuple(told.items())


def starting_mask() -> tuple[int, ...]:
    """This thread's affinity mask, or, where a variable told OpenMP to narrow it, all CPUs that OpenMP gives out.

    >>> starting_mask()                # under OMP_PROC_BIND=close, where os.sched_getaffinity(0) is {0}
    (0, 1)

    A mask that was narrowed by other means (taskset, a container, the user's own call) is not widened.
    Raises AccelError where the system has no affinity masks (macOS, Windows).
    """
    if sys.platform != "linux":
        raise AccelError(
            "The affinity mask of this process",
            because=f"{sys.platform} has none that a program can read",
            do="Leave threads to the system here; Linux has masks.",
        )
    own = os.sched_getaffinity(0)
    if not binding_variables():
        return tuple(sorted(own))
    return tuple(sorted(own | _that_exist(_masks_of_threads() | _openmp_places())))


def allowed_cpus() -> list[int]:
    """The same; empty where the system has no masks."""
    try:
        return list(starting_mask())
    except AccelError:  # macOS and Windows
        return []


def _that_exist(cpus: set[int]) -> set[int]:
    """Of these, the CPUs that the system lets a thread use: GOMP_CPU_AFFINITY may name 16 where there are 2."""

    def try_them() -> None:
        try:
            os.sched_setaffinity(0, cpus)  # leaves out what is not there, and fails where none is
        except OSError:
            return
        found.update(os.sched_getaffinity(0))

    found: set[int] = set()
    thread = threading.Thread(target=try_them)  # whose mask ends with it
    thread.start()
    thread.join()
    return found


def _masks_of_threads() -> set[int]:
    """OpenMP binds each thread of its team elsewhere; Python's threads may have been started before it did."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            found |= os.sched_getaffinity(int(thread))
        except OSError:  # it ended meanwhile
            continue
    return found


def _openmp_places() -> set[int]:
    """What the OpenMP library that is loaded says its places are; they lie within the mask that it was loaded under."""
    for path in _openmp_libraries():
        try:
            library = ctypes.CDLL(path)  # the one that is loaded already
        except OSError:  # its file is gone or another one by now
            continue
        count: Callable[[], int] | None = getattr(library, "omp_get_num_places", None)  # since OpenMP 4.5
        if count is None:
            continue
        found: set[int] = set()
        for place in range(count()):
            numbers = (ctypes.c_int * library.omp_get_place_num_procs(place))()
            library.omp_get_place_proc_ids(place, numbers)
            found |= set(numbers)
        return found
    return set()


def _openmp_libraries() -> list[str]:
    """Those that this process has loaded, Intel's and LLVM's first: preloaded, they serve in GNU's place."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = (line.split(None, 5)[5:] for line in lines)  # a path may hold spaces
    paths = {path for of_line in mapped for path in of_line if _OPENMP.match(path)}
    return sorted(paths, key=lambda path: "gomp" in path)

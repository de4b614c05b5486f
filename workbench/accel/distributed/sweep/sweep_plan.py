"""Which configurations a sweep runs, and why not those that cannot be: decided before any of them begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import get_args

from accel.bounds import check_count, check_seconds, check_steps
from accel.distributed.data_parallel.shares import BatchMeans
from accel.distributed.ranks.rank_devices import Backend, CudaHere, best_gpus, rank_devices
from accel.errors import AccelError, UnknownName, shortened
from accel.machine.affinity import allocate, read_cpu_map
from accel.measuring.sweep_row import Configuration, SweepRow
from accel.processes.starting_mask import starting_mask

Fits = Callable[[int, int], object]  # raises AccelError where so many processes with so many threads do not


_LONGEST_RANGE, _MOST_NUMBERS = 40, 1_000


@dataclass(frozen=True)
class SweepWish:
    """What a sweep is asked for: one option of `%accel sweep` a field.

    Where no numbers are given: one process with ever more threads, and all CPUs shared out among ever more processes.

    >>> SweepWish(processes=(1, 2), threads=(1, 2))
    """

    processes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    backends: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    rounds: int = 1
    steps: int | None = None
    budget_s: float | None = None
    batch: BatchMeans = "per-rank"
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("processes", "threads", "gpus"):
            for number in getattr(self, name):
                check_count(
                    f"--{name} {number}", number, of="GPUs" if name == "gpus" else "processes or threads"
                )
        check_count(f"--rounds {self.rounds}", self.rounds, of="rounds")
        if self.steps is not None:
            check_steps(f"--steps {self.steps}", self.steps)
        check_seconds(f"--budget-s {self.budget_s}", self.budget_s)
        check_seconds(f"--timeout-s {self.timeout_s}", self.timeout_s)
        if self.batch not in get_args(BatchMeans):
            raise UnknownName("value of --batch", self.batch, get_args(BatchMeans))
        known = [name for name in get_args(Backend) if name != "auto"]
        for backend in self.backends:
            if backend not in known:
                raise UnknownName("backend", backend, known)
        if self.gpus and (self.processes or self.threads):
            raise AccelError(
                "%accel sweep --gpus with --processes or --threads",
                because="there is one process a GPU, with its share of the CPUs",
                do="Leave --processes and --threads out, or --gpus.",
            )

    @property
    def bound(self) -> str:
        """Where runs end before the cell does, in words."""
        bounds = [f"{self.steps:,} steps"] if self.steps is not None else []
        return " or ".join(
            bounds + ([f"{self.budget_s:g} s of training"] if self.budget_s is not None else [])
        )


def planned_rows(
    wish: SweepWish, *, usable: int | None = None, fits: Fits = allocate, cuda: CudaHere | None = None
) -> tuple[SweepRow, ...]:
    """A row for each configuration, those that cannot be with the reason; one process comes first, with the fewest threads.

    >>> [row.configuration.label for row in planned_rows(SweepWish(processes=(1, 2), threads=(1,)))]
    ['1 × 1', '2 × 1']
    """
    if wish.gpus:
        backends = wish.backends or ("nccl",)
        chosen = [
            Configuration(number, None, backend, on_gpus=True)
            for backend in backends
            for number in sorted(set(wish.gpus))
        ]
        here = cuda or CudaHere.now()
        return tuple(SweepRow(each, reason=_why_not(partial(gpus_of, each, here))) for each in chosen)
    if usable is None:
        usable = len(read_cpu_map().cores_of(starting_mask())) or 1  # as `allocate` counts them
    pairs = sorted(set(_pairs(wish, usable)))
    backends = wish.backends or ("gloo",)
    chosen = [
        Configuration(processes, threads, backend)
        for processes, threads in pairs
        for backend in (("",) if processes == 1 else backends)
    ]
    return tuple(SweepRow(each, reason=_why_not(partial(_check, each, fits, cuda))) for each in chosen)


def gpus_of(configuration: Configuration, here: CudaHere) -> str:
    """The GPUs of its processes as `rank_devices` takes them; raises AccelError where there are not so many."""
    number = configuration.processes
    if number > here.gpus:
        there = f"there {'is' if here.gpus == 1 else 'are'} {here.gpus or 'none'}"
        raise AccelError(f"{number} GPUs", because=f"{there} that this process may use", do="Use fewer.")
    gpus = ",".join(best_gpus(number, here))
    rank_devices(number, backend=configuration.backend, gpus=gpus, cuda=here)  # type: ignore[arg-type]  # checked: a Backend
    return gpus


def counts(text: int | str | Iterable[int]) -> tuple[int, ...]:
    """Numbers apart by commas, or from one to another, or one alone.

    >>> counts("1,2,4"), counts("1..4")
    ((1, 2, 4), (1, 2, 3, 4))
    """
    if isinstance(text, int):
        return (text,)
    if not isinstance(text, str):
        return tuple(text)
    found: list[int] = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        first, dots, last = part.partition("..")
        is_short = len(part) <= _LONGEST_RANGE
        if (
            not is_short
            or not first.isdecimal()
            or (dots and not last.isdecimal())
            or int(last or first) < int(first)
        ):
            raise AccelError(
                f"Numbers {shortened(text, 60)!r}",
                because=f"{shortened(part, 60)!r} is no number from 1 on, and no range of them",
                do="Write them as 1,2,4 or 1..8.",
            )  # fmt: skip
        if int(last or first) - int(first) > _MOST_NUMBERS:
            raise AccelError(
                f"Numbers {text!r}",
                because=f"{part} are more than {_MOST_NUMBERS:,} runs",
                do="Name those to compare.",
            )
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _pairs(wish: SweepWish, usable: int) -> list[tuple[int, int]]:
    """What was named, each with each; else one process with ever more threads, and all CPUs shared out among ever more."""
    if wish.processes and wish.threads:
        return [(processes, threads) for processes in wish.processes for threads in wish.threads]
    shares = [(number, max(1, usable // number)) for number in wish.processes or _doubling(usable)]
    if wish.processes:
        return shares
    return [(1, threads) for threads in wish.threads or _doubling(usable)] + ([] if wish.threads else shares)


def _doubling(most: int) -> list[int]:
    return [*(2**power for power in range(most.bit_length()) if 2**power < most), most]


def _check(configuration: Configuration, fits: Fits, cuda: CudaHere | None) -> None:
    fits(configuration.processes, configuration.threads or 1)
    if configuration.backend not in ("", "gloo"):  # what gloo needs is there
        rank_devices(configuration.processes, backend=configuration.backend, cuda=cuda)  # type: ignore[arg-type]


def _why_not(check: Callable[[], object]) -> str:
    try:
        check()
    except AccelError as error:
        return error.because
    return ""

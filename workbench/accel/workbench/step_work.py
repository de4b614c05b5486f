"""What a step of the profiled cell computes and would have to exchange, and what more machines would make of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel.bounds import check_count
from accel.distributed.scaling.calibration import ScalingLaw
from accel.distributed.scaling.forecast import Assumed, ScalingForecast, forecast
from accel.distributed.scaling.steps import StepWork
from accel.distributed.sweep.sweep_plan import counts
from accel.errors import AccelError, shortened

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState

_QUARTILES_PER_DEVIATION = 1.349  # of a normal distribution, from the first to the third
_SPREAD = 0.03  # of steps that nobody has measured
_MOST_MACHINES = 1_000_000


def step_work(workbench: NotebookState, *, bucket_mb: float = 25.0) -> StepWork:
    """Of the profiled cell: its step, the part that is the backward pass, and the bytes of its gradients.

    >>> step_work(workbench).gradient_bytes

    Raises AccelError where no cell that trains was profiled.
    """
    workload = workbench.workload_to_train("what_if")
    profile = workbench.profile_of_workload
    assert profile is not None
    models = workload.objects().models.values()
    trained = {id(p): p for model in models for p in model.parameters() if p.requires_grad}
    phases = {phase.name: phase.share for phase in profile.phases}
    first_ms, third_ms = profile.spread_ms
    spread = (third_ms - first_ms) / _QUARTILES_PER_DEVIATION / profile.step_ms
    return StepWork(
        profile.step_ms / 1e3, float(sum(p.numel() * p.element_size() for p in trained.values())),
        backward_share=phases.get("backward", 2 / 3), bucket_bytes=bucket_mb * 1e6,
        spread=spread if math.isfinite(spread) else 0.0,
    )  # fmt: skip


@dataclass(frozen=True)
class Wish:
    """What `accel.what_if` was asked."""

    machines: int | str | Iterable[int] = (1, 2, 4, 8, 16, 32, 64)
    ranks_per_machine: int = 8
    inside: str = "nvlink"
    network: str = "200gb"
    rails: int = 1
    step_ms: float | None = None
    gradient_mb: float | None = None
    bucket_mb: float = 25.0
    measured: str | Mapping[int, float] = ""


def forecast_for(workbench: NotebookState | None, wish: Wish) -> ScalingForecast:
    """Of the step that is given, else of the profiled cell's.

    >>> forecast_for(None, Wish("1,8", step_ms=100, gradient_mb=50)).line
    """
    machines = counts(wish.machines)
    for asked, count in (
        *((f"machines {each}", each) for each in machines),
        (f"rails {wish.rails}", wish.rails),
    ):
        check_count(asked, count, of="machines or network cards", most=_MOST_MACHINES)
    check_count(f"ranks_per_machine {wish.ranks_per_machine}", wish.ranks_per_machine, of="ranks", most=1_000)
    for name in ("step_ms", "gradient_mb", "bucket_mb"):
        check_amount(name, getattr(wish, name))
    law = ScalingLaw.fitted(seconds_by_ranks(wish.measured)) if wish.measured else None
    assumed = Assumed(wish.ranks_per_machine, wish.inside, wish.network, wish.rails, law)
    work = replace(_work(workbench, wish), hides=wish.inside != "memory")
    found = forecast(work, machines, assumed)
    is_of_cpu = (
        workbench is not None
        and workbench.workload is not None
        and workbench.workload.objects().device_type == "cpu"
    )
    if is_of_cpu and wish.step_ms is None and wish.inside != "memory":
        note = f'Your cell was profiled on a CPU, and this is about ranks joined by {wish.inside}: for CPUs say inside="memory".'
        return replace(found, note=note)
    return found


def _work(workbench: NotebookState | None, wish: Wish) -> StepWork:
    if wish.step_ms is not None and wish.gradient_mb is not None:
        return StepWork(
            wish.step_ms / 1e3, wish.gradient_mb * 1e6, bucket_bytes=wish.bucket_mb * 1e6, spread=_SPREAD
        )  # fmt: skip
    if workbench is None:
        raise AccelError(
            "A forecast", because="there is no profiled cell here", do="Give a step: --step-ms 120 --gradient-mb 100."
        )  # fmt: skip
    found = step_work(workbench, bucket_mb=wish.bucket_mb)
    return replace(
        found, compute_s=wish.step_ms / 1e3 if wish.step_ms else found.compute_s,
        gradient_bytes=wish.gradient_mb * 1e6 if wish.gradient_mb else found.gradient_bytes,
    )  # fmt: skip


def check_amount(name: str, amount: float | None) -> None:
    """Refuse what is no amount; None is always right.

    >>> check_amount("step_ms", 120.0)
    """
    if amount is not None and not 0 < amount < math.inf:
        raise AccelError(f"{name} {amount}", because="it is no amount above 0", do="Use for example 100.")


def seconds_by_ranks(measured: str | Mapping[int, float]) -> dict[int, float]:
    """A training's seconds by its number of ranks.

    >>> seconds_by_ranks("1:707,2:393,4:208")
    {1: 707.0, 2: 393.0, 4: 208.0}
    """
    if not isinstance(measured, str):
        return dict(measured)
    found = {}
    for part in filter(None, (each.strip() for each in measured.split(","))):
        ranks, _, seconds = part.partition(":")
        try:
            found[int(ranks)] = float(seconds)
        except ValueError:
            raise AccelError(
                shortened(f"--measured {measured}", 60),
                because=f"{shortened(part, 40)!r} is no number of ranks with its seconds",
                do="Write for example 1:707,2:393,4:208.",
            ) from None  # fmt: skip
        check_count(shortened(f"--measured {measured}", 60), int(ranks), of="ranks")
        check_amount(shortened(f"--measured {measured}: the time", 60), found[int(ranks)])
    return found

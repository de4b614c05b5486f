"""A training on ever more machines, as a model of its links has it: speed-up, efficiency and what holds it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel.distributed.scaling.calibration import ScalingLaw
from accel.distributed.scaling.links import LinkModel, Machines
from accel.distributed.scaling.steps import StepForecast, StepWork, forecast_step, is_usable
from accel.errors import AccelError, UnknownName
from accel.shown import Shown
from accel.units import counted, percent

UNSURE = 0.25  # of a link's latency and bandwidth, where they are assumed: figures of makers and of benchmarks differ by that
# Seconds and bytes a second of one rank's link, as benchmarks of their makers and of nccl-tests have them.
LINKS = {
    "nvlink": LinkModel(4e-6, 200e9), "pcie": LinkModel(6e-6, 20e9), "memory": LinkModel(15e-6, 4e9),
    "400gb": LinkModel(6e-6, 45e9), "200gb": LinkModel(6e-6, 22e9), "100gb": LinkModel(8e-6, 11e9),
    "25gb": LinkModel(25e-6, 2.8e9), "10gb": LinkModel(40e-6, 1.1e9), "1gb": LinkModel(60e-6, 0.11e9),
}  # fmt: skip
_FREE = LinkModel(0.0, float("inf"))


@dataclass(frozen=True)
class ForecastRow:
    """A number of machines: the speed-up over one rank with its interval, and the parts of a step."""

    machines: int
    ranks: int
    speed_up: float
    low: float
    high: float
    step_ms: float
    exposed_ms: float
    lost_ms: float  # to slower ranks, and to what was measured inside a machine

    @property
    def efficiency(self) -> float:
        """Of what so many ranks could bring."""
        return self.speed_up / self.ranks


@dataclass(frozen=True)
class Assumed:
    """What joins the ranks: so many a machine, links inside and between by name, network cards; and what was measured inside."""

    per_machine: int
    inside: str
    network: str
    rails: int = 1
    law: ScalingLaw | None = None

    def machines(self, by: float) -> Machines:
        """With links that are so many times as fast as assumed. What was measured inside a machine is in the law already."""
        inside = _FREE if self.law is not None else _scaled(link_named(self.inside), by)
        return Machines(self.per_machine, inside, _scaled(link_named(self.network), by), self.rails)


@dataclass(frozen=True)
class ScalingForecast(Shown):
    """What a training would gain on more machines, with what was assumed.

    >>> print(accel.what_if(machines=(1, 2, 8, 64), ranks_per_machine=8, inside="nvlink", network="200gb"))
    """

    rows: tuple[ForecastRow, ...]
    work: StepWork
    assumed: Assumed
    note: str = ""

    @property
    def line(self) -> str:
        """The largest number of machines that still gives half of what it costs."""
        good = [row for row in self.rows if row.efficiency >= 0.5]
        if not good:
            return "Already the first row gives less than half of what its ranks could."
        last = good[-1]
        return (
            f"{last.machines:,} machines ({last.ranks:,} ranks) train {last.speed_up:,.0f}× "
            f"[{last.low:,.0f}, {last.high:,.0f}] as fast as one rank, {percent(last.efficiency, 0)} of what they could."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """In words, with what is left out."""
        work, joined = self.work, self.assumed
        measured = "what was measured inside one" if joined.law is not None else joined.inside
        return (
            f"Each rank computes {1e3 * work.compute_s:.3g} ms a step on a batch of its own, so that a step trains more samples.",
            f"Steps differ by {percent(work.spread, 0)} from rank to rank (standard deviation); all wait for the slowest.",
            f"{work.gradient_bytes / 1e6:,.1f} MB of gradients go in {counted(len(work.buckets), 'bucket')} during the backward "
            f"pass, which is {percent(work.backward_share, 0)} of a step{'' if work.hides else ', and hides nothing on CPUs'}.",
            f"{counted(joined.per_machine, 'rank')} a machine are joined by {measured}, machines by {joined.network} with "
            f"{counted(joined.rails, 'network card')} each.",
            "Reading data, saving, and other jobs on the network are left out.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain values."""
        return asdict(self) | {"line": self.line, "assumptions": self.assumptions}


def forecast(work: StepWork, machines: Iterable[int], assumed: Assumed) -> ScalingForecast:
    """A training whose step is known, on so many machines.

    >>> forecast(StepWork(0.1, 100e6), (1, 2, 4), Assumed(8, "nvlink", "200gb")).rows[-1].speed_up

    The interval holds what the model gives with links that are slower or faster by a quarter, and with steps that differ twice
    or half as much from rank to rank. Raises AccelError.
    """
    for name in (assumed.inside, assumed.network):
        link_named(name)
    if not is_usable(work.compute_s):
        raise AccelError(
            "A forecast", because="the time of a step is not known", do="Profile the cell first, or give step_ms."
        )  # fmt: skip
    rows = []
    for count in machines:
        ranks = count * assumed.per_machine
        middle, slow, fast = (
            _step(replace(work, spread=work.spread * spread), ranks, assumed, by)
            for by, spread in ((1.0, 1.0), (1 - UNSURE, 2.0), (1 + UNSURE, 0.5))
        )
        worth = ranks * work.compute_s
        rows.append(ForecastRow(
            count, ranks, worth / middle.step_s, worth / slow.step_s, worth / fast.step_s, 1e3 * middle.step_s,
            1e3 * middle.exposed_s, 1e3 * (middle.compute_s - work.compute_s),
        ))  # fmt: skip
    return ScalingForecast(tuple(rows), work, assumed)


def _step(work: StepWork, ranks: int, assumed: Assumed, by: float) -> StepForecast:
    joined, here = assumed.machines(by), assumed.per_machine
    if assumed.law is None:
        return forecast_step(work, ranks, lambda size: joined.all_reduce_s(size, ranks))
    of_machine = replace(work, compute_s=work.compute_s * assumed.law.loss(here))
    return forecast_step(
        of_machine, ranks, lambda size: joined.all_reduce_s(size, ranks), slowest_of=ranks // here
    )


def _scaled(link: LinkModel, by: float) -> LinkModel:
    return LinkModel(link.latency_s / by, link.bytes_per_s * by)


def link_named(name: str) -> LinkModel:
    """The link of that name; raises UnknownName with the nearest right word."""
    if name not in LINKS:
        raise UnknownName("link", name, LINKS)
    return LINKS[name]

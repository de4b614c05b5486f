"""A cluster as its ranks see it: hosts, interfaces, the link between them, and what more machines would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from accel.distributed.scaling.calibration import link_from_all_reduces
from accel.distributed.scaling.links import LinkModel
from accel.distributed.scaling.probe import Probed
from accel.distributed.scaling.steps import StepWork, forecast_step
from accel.distributed.scaling.yardstick import SmallTraining
from accel.shown import Shown

_MOST_OF_A_RANK = 1.15


@dataclass(frozen=True)
class HostView:
    """One host: its ranks, and the interface that they talk over with its speed and kind."""

    name: str
    ranks: tuple[int, ...]
    interface: str
    kind: str
    bytes_per_s: float | None
    rdma: str


@dataclass(frozen=True)
class ClusterView(Shown):
    """What was found, and the predicted speed-up of a training whose step is known.

    >>> print(accel.cluster(on="mycluster"))
    """

    where: str
    hosts: tuple[HostView, ...]
    all_reduce_s: tuple[tuple[int, float], ...]
    link: LinkModel
    yardstick_s: float  # the slowest rank's
    training: SmallTraining  # of the rank that waited longest
    hides: bool = False  # the exchange behind the backward pass, as GPUs do
    work: StepWork | None = None
    own_yardstick_s: float = float("nan")  # the notebook's, on the device of that step
    measured: tuple[tuple[int, float], ...] = ()  # speed-ups of that step's cell, by ranks

    @property
    def ranks(self) -> int:
        """All of them."""
        return sum(len(host.ranks) for host in self.hosts)

    @property
    def error(self) -> float:
        """The largest relative error of the link's model against what was measured."""
        return max(
            abs(self.link.ring_s(size, self.ranks) / seconds - 1) for size, seconds in self.all_reduce_s
        )

    def speed_up(self, ranks: int) -> tuple[float, float, float]:
        """Predicted over one rank, with what the model's own error leaves open; nan where no step is known."""
        if self.work is None:
            return (float("nan"),) * 3
        middle, slow, fast = (self._speed_up(ranks, by) for by in (1.0, 1 + self.error, 1 / (1 + self.error)))
        return middle, slow, fast

    def _speed_up(self, ranks: int, slower: float) -> float:
        assert self.work is not None
        there = replace(self.work, compute_s=self.work.compute_s * self.pace, hides=self.hides)
        step = forecast_step(there, ranks, lambda size: slower * self.link.ring_s(size, ranks))
        return ranks * self.work.compute_s / (step.compute_s + self.friction * step.exposed_s)

    @property
    def is_believable(self) -> bool:
        """Whether ranks give at most what so many could: a notebook that was slowed down makes them look too fast."""
        return self.work is not None and self.speed_up(self.ranks)[0] <= _MOST_OF_A_RANK * self.ranks

    @property
    def friction(self) -> float:
        """How many times as long as the link's model says the exchange of a small training held it up: copies, shared cores."""
        work = StepWork(self.training.step_s, self.training.gradient_bytes, hides=self.hides)
        expected_s = forecast_step(
            work, self.ranks, lambda size: self.link.ring_s(size, self.ranks)
        ).exposed_s
        return max(0.0, self.training.exchanging_s - self.training.step_s) / expected_s

    @property
    def pace(self) -> float:
        """How many times as long a piece of training takes on a rank, beside its neighbours, as in the notebook."""
        return self.yardstick_s / self.own_yardstick_s

    def to_dict(self) -> dict[str, Any]:
        """Every figure as plain values."""
        return asdict(self) | {"ranks": self.ranks, "error": self.error}


def cluster_view(where: str, probed: Sequence[Probed]) -> ClusterView:
    """From what each rank found; of each size the slowest rank counts, for all wait for it.

    >>> cluster_view("mpirun on h1, h2", run_function(ranks, probe)).link.bytes_per_s
    """
    hosts = []
    for name in dict.fromkeys(each.host for each in probed):
        own = [each for each in probed if each.host == name]
        found = {each["name"]: each for each in own[0].interfaces}.get(own[0].interface, {})
        hosts.append(HostView(
            name, tuple(each.rank for each in own), own[0].interface, found.get("kind", ""), found.get("bytes_per_s"),
            found.get("rdma", ""),
        ))  # fmt: skip
    slowest = {
        size: max(dict(each.all_reduce_s)[size] for each in probed) for size, _ in probed[0].all_reduce_s
    }
    link = link_from_all_reduces([(float(size), len(probed), seconds) for size, seconds in slowest.items()])
    return ClusterView(
        where, tuple(hosts), tuple(slowest.items()), link, max(each.yardstick_s for each in probed),
        max((each.training for each in probed), key=lambda each: each.exchanging_s), hides=probed[0].is_on_gpu,
    )  # fmt: skip

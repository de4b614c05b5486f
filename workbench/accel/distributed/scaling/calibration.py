"""Links from measurements: of all-reduces by size, or of whole trainings on several numbers of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accel.distributed.scaling.links import LinkModel
from accel.errors import AccelError

_LEAST_LATENCY_S = 1e-7


def link_from_all_reduces(measured: Sequence[tuple[float, int, float]]) -> LinkModel:
    """The link under which rings would have taken what was measured: (bytes, ranks, seconds) each.

    >>> link_from_all_reduces([(1e3, 2, 40e-6), (16e6, 2, 4e-3)])

    Small sizes tell the latency and large ones the bandwidth: each counts by its relative error, so neither drowns the other.
    Raises AccelError with fewer than two sizes.
    """
    if len({size for size, _, _ in measured}) < 2:
        raise AccelError(
            "Calibrating a link", because="that takes all-reduces of two sizes at least", do="Measure a small and a large one.",
        )  # fmt: skip
    rows = []
    for size, ranks, seconds in measured:
        messages = 2 * (ranks - 1)
        rows.append(
            (messages / seconds, messages * size / ranks / seconds)
        )  # of the latency, of 1 / bandwidth: to be 1
    latency_s, per_byte_s = _least_squares(rows)
    if latency_s < _LEAST_LATENCY_S:
        latency_s, per_byte_s = _LEAST_LATENCY_S, 1 / _mean([b for _, b in rows])
    return LinkModel(latency_s, 1 / max(per_byte_s, 1e-15))


@dataclass(frozen=True)
class ScalingLaw:
    """Of a training on several numbers of ranks: what a step loses for each rank more, in parts of its computing.

    >>> law = ScalingLaw.fitted({1: 707, 2: 393, 4: 208})
    >>> round(law.speed_up(8), 2)
    6.51

    Each rank computes as long as one alone does; a ring adds `per_byte`·2·(n − 1)/n, and `per_message`·(n − 1) more: latencies,
    and waiting for the slowest.
    """

    per_byte: float
    per_message: float

    @classmethod
    def fitted(cls, seconds: Mapping[int, float]) -> ScalingLaw:
        """From the seconds of the same training by the number of ranks, 1 among them, and two others at least."""
        if 1 not in seconds or len(seconds) < 3:
            raise AccelError(
                "Fitting how a training scales", because="that takes its time on one rank and on two other numbers of ranks",
                do="Measure 1, 2 and 4, for example.",
            )  # fmt: skip
        rows = []
        for ranks, taken in seconds.items():
            if ranks > 1:
                loss = ranks * taken / seconds[1] - 1
                rows.append((2 * (ranks - 1) / ranks / max(loss, 1e-6), (ranks - 1) / max(loss, 1e-6)))
        per_byte, per_message = _least_squares(rows)
        return cls(max(per_byte, 0.0), max(per_message, 0.0))

    def loss(self, ranks: int) -> float:
        """How many times as long a step takes on so many ranks as on one."""
        return 1 + self.per_byte * 2 * (ranks - 1) / ranks + self.per_message * (ranks - 1)

    def speed_up(self, ranks: int) -> float:
        """Over one rank, for the same number of samples."""
        return ranks / self.loss(ranks)


def _least_squares(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """x and y with a·x + b·y nearest to 1 in all rows, none of them below 0."""
    aa, bb, ab = sum(a * a for a, _ in rows), sum(b * b for _, b in rows), sum(a * b for a, b in rows)
    a_sum, b_sum = sum(a for a, _ in rows), sum(b for _, b in rows)
    determinant = aa * bb - ab * ab
    if determinant > 1e-12 * aa * bb:
        x, y = (a_sum * bb - b_sum * ab) / determinant, (b_sum * aa - a_sum * ab) / determinant
        if x >= 0 and y >= 0:
            return x, y
    alone = ((a_sum / aa if aa else 0.0, 0.0), (0.0, b_sum / bb if bb else 0.0))
    return min(alone, key=lambda found: sum((a * found[0] + b * found[1] - 1) ** 2 for a, b in rows))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

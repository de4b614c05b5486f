"""Which knob to try for the exchange of gradients, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from accel.distributed.communication.communication_figures import BucketFigures
from accel.units import gigabytes, percent, size

_LITTLE = 0.05  # of a step: less is not worth a knob
_MANY_BUCKETS = 8
_TINY_BYTES = 0.5e6  # a message that small takes mostly its latency
_WORTH_SPLITTING_BYTES = 1e6
_WORTH_COMPRESSING_BYTES = 1e6
_MUCH_SLOWER = 0.5


class Exchanging(Protocol):
    """What advice is given by; a CommunicationReport has all of it."""

    @property
    def backend(self) -> str: ...
    @property
    def compress(self) -> str: ...
    @property
    def buckets(self) -> Sequence[BucketFigures]: ...
    @property
    def exposed_ms(self) -> float: ...
    @property
    def exposed_share(self) -> float: ...
    @property
    def waited_ms(self) -> float: ...
    @property
    def bus_bytes_per_s(self) -> float: ...


def advice_for(report: Exchanging) -> list[str]:
    """Sentences, the most promising first.

    >>> advice_for(result.communication)
    ['All 16 MiB of gradients travel in one bucket …']
    """
    if report.exposed_share < _LITTLE:
        return [
            f"Waiting for the exchange is {percent(report.exposed_share, 0)} of a step: there is little to gain here."
        ]
    found = []
    is_of_straggler = report.waited_ms > report.exposed_ms / 2
    if is_of_straggler:
        found.append(
            "Most of the waiting is for a rank that sends later than the others: no size of bucket and no compression shortens "
            "that. Look at its own work a step, at its loader, and at other programs on its CPUs."
        )
    found += _of_buckets(report)
    if report.compress.startswith("powersgd") and report.backend == "gloo":
        found.append(
            "Over gloo PowerSGD exchanges one bucket after the other, and the backward pass waits for each: it hides nothing."
        )
    sent = sum(each.sent_bytes for each in report.buckets)
    if not is_of_straggler:
        if report.compress == "none" and sent >= _WORTH_COMPRESSING_BYTES:
            found.append("--compress bf16 halves what travels, and rounds gradients.")
        found.append(
            "A larger batch, or gradients of several batches added up before each optimizer step, exchanges less often for as "
            "many samples."
        )
    link = [each.link_bytes_per_s for each in report.buckets if each.link_bytes_per_s]
    if report.backend == "gloo" and link and report.bus_bytes_per_s < _MUCH_SLOWER * max(link):
        found.append(
            f"While it trains, the exchange reaches {gigabytes(report.bus_bytes_per_s)} of the {gigabytes(max(link))} that the "
            "same ranks reach with nothing else to do: on a CPU it needs cores that the backward pass uses too."
        )
    return found


def _of_buckets(report: Exchanging) -> list[str]:
    sizes = [each.gradient_bytes for each in report.buckets]
    total = sum(sizes)
    if len(sizes) == 1 and total >= _WORTH_SPLITTING_BYTES:
        return [
            f"All {size(total)} of gradients travel in one bucket, which is full only when the backward pass ends: "
            f"nothing can overlap. Try --bucket-mb {max(total / 4 / 2**20, 0.1):.2g}."
        ]
    if len(sizes) >= _MANY_BUCKETS and total / len(sizes) < _TINY_BYTES:
        return [
            f"{len(sizes)} buckets of {size(total / len(sizes))} each cost their latency more than their bytes. Try "
            f"--bucket-mb {max(total / 4 / 2**20, 0.1):.2g}."
        ]
    if len(sizes) > 1 and sizes[-1] > total / 2:
        return [
            "The last bucket has more than half of the gradients, and nothing is left to hide it behind: a smaller --bucket-mb "
            "lets more of it go earlier, where those are gradients of several layers."
        ]
    return []

"""How long an all-reduce takes over links of a latency and a bandwidth: by a ring, by a tree, and in two levels.

The model is Hockney's: a message takes its latency, and its bytes over the bandwidth. A ring sends 2·(n − 1) messages of 1/n of
the bytes each, one after the other (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009); a double binary tree
needs 2·log2(n) messages for the first bytes and sends all of them twice (Sanders, Speck and Träff, 2009). Libraries take the
faster of the two, and so do we.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LinkModel:
    """What one rank's link does: seconds before the first byte of a message, and bytes a second from then on.

    >>> LinkModel(latency_s=5e-6, bytes_per_s=25e9).ring_s(100e6, ranks=8)
    0.00707
    """

    latency_s: float
    bytes_per_s: float

    def ring_s(self, size_bytes: float, ranks: int) -> float:
        """An all-reduce by a ring."""
        if ranks < 2:
            return 0.0
        return 2 * (ranks - 1) * (self.latency_s + size_bytes / ranks / self.bytes_per_s)

    def tree_s(self, size_bytes: float, ranks: int) -> float:
        """An all-reduce by a double binary tree, whose two halves use both directions of a link."""
        if ranks < 2:
            return 0.0
        return 2 * math.ceil(math.log2(ranks)) * self.latency_s + 2 * size_bytes / self.bytes_per_s

    def all_reduce_s(self, size_bytes: float, ranks: int) -> float:
        """By the faster of the two."""
        return min(self.ring_s(size_bytes, ranks), self.tree_s(size_bytes, ranks))

    def half_s(self, size_bytes: float, ranks: int) -> float:
        """A reduce-scatter, or an all-gather: the half of a ring."""
        return self.ring_s(size_bytes, ranks) / 2


@dataclass(frozen=True)
class Machines:
    """So many ranks on each machine, joined by one link inside and by another between machines.

    >>> Machines(per_machine=8, inside=nvlink, between=infiniband).all_reduce_s(100e6, ranks=64)

    `rails`: network cards of each machine, over which its ranks send at the same time.
    """

    per_machine: int
    inside: LinkModel
    between: LinkModel
    rails: int = 1

    def all_reduce_s(self, size_bytes: float, ranks: int) -> float:
        """Inside a machine each rank gathers its share of the sum; the shares go between machines; then all get all of them."""
        here = min(ranks, self.per_machine)
        machines = math.ceil(ranks / self.per_machine)
        if machines == 1:
            return self.inside.all_reduce_s(size_bytes, here)
        between = self.between.all_reduce_s(size_bytes / self.rails, machines)
        return 2 * self.inside.half_s(size_bytes, here) + between

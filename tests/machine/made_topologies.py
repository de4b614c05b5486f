"""Topologies to test with: recorded matrices, joined by a rule, or any at all (hypothesis)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import strategies as st

from accel.machine.topology import Device, Link, Topology, read_matrix
from accel.machine.topology.links import WAYS

RECORDED = Path(__file__).parent / "topology"
COURSE = (RECORDED / "course_8_gpus.txt").read_text()


def recorded(name: str) -> Topology:
    """A recorded matrix by the name of its file."""
    return read_matrix((RECORDED / f"{name}.txt").read_text(), source=f"{name}.txt")


def joined(
    count: int, label: Callable[[int, int], str], nodes: Sequence[int | None] | None = None
) -> Topology:
    """So many GPUs, each two joined by what `label` says."""
    rows = [[Link("X") if a == b else Link(label(a, b)) for b in range(count)] for a in range(count)]
    gpus = (Device(f"GPU{n}", numa_node=node) for n, node in enumerate(nodes or [None] * count))
    return Topology(tuple(gpus), tuple(map(tuple, rows)))


NODES = st.frozensets(st.integers(0, 40), max_size=4).map(lambda numbers: tuple(sorted(numbers)))


@st.composite
def devices(draw):
    """GPUs with the cores and nodes near to them, a node of their own or none; cards with names or none."""
    has_memory_nodes, has_names = draw(st.booleans()), draw(st.booleans())
    gpus = []
    for number in range(draw(st.integers(1, 6))):
        cpus = tuple(sorted(draw(st.frozensets(st.integers(0, 200), max_size=20))))
        near = draw(NODES)
        memory_node = draw(st.none() | st.integers(0, 9)) if has_memory_nodes else None
        node, others = (near[0], near[1:]) if near else (None, ())
        gpus.append(Device(f"GPU{number}", cpus, node, other_nodes=others, memory_node=memory_node))
    names = draw(
        st.sampled_from([("mlx5_0", "mlx5_1", "rocep12s0"), ("mlx5_bond_0", "ibp3s0f0", "bnxt_re0")])
    )
    count = draw(st.integers(0, 3))
    cards = [Device(f"NIC{n}", model=names[n] if has_names else "") for n in range(count)]
    return (*gpus, *(cards if draw(st.booleans()) else [Device(name) for name in names[:count]]))


@st.composite
def matrices(draw):
    found = draw(devices())
    labels = st.sampled_from([*WAYS, "NV1", "NV2", "NV12", "NV18"])
    between = {pair: Link(draw(labels)) for pair in itertools.combinations(range(len(found)), 2)}
    every = range(len(found))
    links = tuple(tuple(Link("X") if a == b else between[min(a, b), max(a, b)] for b in every) for a in every)
    return Topology(found, links)

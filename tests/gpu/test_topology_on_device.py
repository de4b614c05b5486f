"""The topology from NVML against what `nvidia-smi topo -m` prints on the same machine, and against the driver's peer access."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from accel.machine.nvml import opened_nvml
from accel.machine.topology import Topology, read_matrix, read_topology

NVLINK = 2  # NVML_P2P_CAPS_INDEX_NVLINK
STATUS_OK = 0


def printed() -> Topology | None:
    """What nvidia-smi tells of this machine; None where it does not run."""
    if shutil.which("nvidia-smi") is None:
        return None
    ran = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=120)
    return read_matrix(ran.stdout, source="nvidia-smi") if ran.returncode == 0 else None


PRINTED = printed()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(PRINTED is None, reason="nvidia-smi topo -m does not run on this machine"),
]


def test_the_links_of_the_driver_are_those_that_nvidia_smi_prints():
    found = read_topology()
    assert [gpu.name for gpu in found.gpus] == [gpu.name for gpu in PRINTED.gpus]
    labels = {(a.name, b.name): link.label for a, b, link in found.pairs()}
    assert labels == {(a.name, b.name): link.label for a, b, link in PRINTED.pairs()}


def test_cards_are_those_that_nvidia_smi_names_at_the_same_links():
    found = read_topology()
    ours = {card.model: card.name for card in found.network_cards}
    theirs = {card.model or card.name: card.name for card in PRINTED.network_cards}
    assert ours.keys() == theirs.keys()
    for gpu in found.gpus:
        assert {name: found.link(gpu.name, ours[name]).label for name in ours} == {
            name: PRINTED.link(gpu.name, theirs[name]).label for name in theirs
        }


def test_near_cores_are_those_that_nvidia_smi_prints():
    pairs = [
        (ours, theirs) for ours, theirs in zip(read_topology().gpus, PRINTED.gpus, strict=True) if theirs.cpus
    ]
    if not pairs:
        pytest.skip("nvidia-smi names no near CPUs here, as in a container that may use none of them")
    for ours, theirs in pairs:
        assert set(theirs.cpus) <= set(ours.cpus)


def test_near_nodes_are_those_that_nvidia_smi_prints():
    both = zip(read_topology().gpus, PRINTED.gpus, strict=True)
    pairs = [(ours, theirs) for ours, theirs in both if None not in (ours.numa_node, theirs.numa_node)]
    if not pairs:
        pytest.skip("nvidia-smi or /sys names no NUMA node here, as in a virtual machine")
    for ours, theirs in pairs:
        assert ours.numa_node == theirs.numa_node


def test_what_is_written_of_this_machine_is_read_again():
    found = read_topology()
    again = read_matrix(found.matrix)
    assert again.links == found.links
    assert again.best_gpus(1).indices == found.best_gpus(1).indices


def test_gpus_reach_each_other_by_nvlink_exactly_where_the_label_says_so():
    found = read_topology()
    if len(found.gpus) < 2:
        pytest.skip("one GPU has no peer")
    with opened_nvml() as nvml:
        handles = [nvml.nvmlDeviceGetHandleByIndex(gpu.index) for gpu in found.gpus]
        for first, second, link in found.pairs():
            status = nvml.nvmlDeviceGetP2PStatus(handles[first.index], handles[second.index], NVLINK)
            assert (status == STATUS_OK) == (link.nvlinks > 0), f"{first.name} – {second.name}: {link.label}"

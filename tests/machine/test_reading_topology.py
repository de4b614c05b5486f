"""The topology from NVML and /sys: a driver that answers as the documentation says, over copied trees."""

from __future__ import annotations

import shutil
import sys

import pytest

from accel.errors import AccelError
from accel.machine.nvml import short_bus_id
from accel.machine.topology.matrix_text import read_matrix
from accel.machine.topology.pci_paths import network_cards, pci_device, way_between
from accel.machine.topology.reading import read_topology, topology_of, with_the_machine
from accel.machine.topology.topology import Topology
from tests.machine import fake_nvml
from tests.machine.fake_nvml import FakeGpu, FakeNvml


def machine_with(
    bus_ids: list[str],
    nvlinks: dict[tuple[int, int], int | str] | None = None,
    ancestors: dict[frozenset[int], int] | None = None,
) -> FakeNvml:
    """Bus ids of its GPUs, NVLinks as (GPU, link number) → GPU or "switch", ancestors by pair."""
    links = (nvlinks or {}).items()
    gpus = [
        FakeGpu("NVIDIA Test", bus_id, nvlinks={link: peer for (gpu, link), peer in links if gpu == number})
        for number, bus_id in enumerate(bus_ids)
    ]
    return FakeNvml(gpus, ancestors or {})


# Two sockets: on the first a switch with two GPUs and a card, and a GPU behind another host bridge; the rest on the second.
PLACES = {
    "0000:03:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0", 0),
    "0000:04:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0", 0),
    "0000:05:00.0": ("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0", 0),
    "0000:08:00.0": ("pci0000:00/0000:00:02.0", 0),
    "0000:09:00.0": ("pci0000:00/0000:00:03.0", 0),
    "0000:09:00.1": ("pci0000:00/0000:00:03.0", 0),
    "0000:24:00.0": ("pci0000:20", -1),
    "0000:44:00.0": ("pci0000:40", -1),
    "0000:23:00.0": ("pci0000:20/0000:20:01.0", 0),
    "0000:83:00.0": ("pci0000:80/0000:80:01.0", 1),
}
CARDS = {"mlx5_0": "0000:05:00.0", "mlx5_1": "0000:83:00.0"}
# One that is mlx5_1 by another name, a card on the board with two ports, one of a virtual machine, and one without hardware.
INTERFACES = {
    "ib0": "0000:83:00.0",
    "eno1": "0000:09:00.0",
    "eno2": "0000:09:00.1",
    "eth0": "0000:24:00.0/virtio2",
    "eth1": "0000:44:00.0",
    "lo": None,
}


@pytest.fixture
def root(tmp_path):
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for bus_id, (bridges, node) in PLACES.items():
        folder = tmp_path / "sys/devices" / bridges / bus_id
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        (folder / "local_cpulist").write_text("0-3\n" if node == 0 else "4-7\n")
        (devices / bus_id).symlink_to(folder)
    for card, bus_id in CARDS.items():
        (tmp_path / "sys/class/infiniband" / card).mkdir(parents=True)
        (tmp_path / "sys/class/infiniband" / card / "device").symlink_to(devices / bus_id)
    for name, place in INTERFACES.items():
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
        if place:
            (devices / place).mkdir(exist_ok=True)
            (tmp_path / "sys/class/net" / name / "device").symlink_to(devices / place)
            (tmp_path / "sys/class/net" / name / "speed").write_text("10000\n" if name == "eno1" else "-1\n")
    for number in range(8):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{number // 4}\n")
    for node in range(2):
        (tmp_path / f"sys/devices/system/node/node{node}").mkdir(parents=True)
        (tmp_path / f"sys/devices/system/node/node{node}/cpulist").write_text(f"{4 * node}-{4 * node + 3}\n")
    return tmp_path


DRAWN = """
Machine: nothing tells the place of some devices
├─ Socket 0
│  └─ NUMA node 0: CPUs 0-3
│     ├─ PCIe host bridge: 0000:00
│     │  ├─ PCIe switch: 0000:01:00.0
│     │  │  ├─ GPU0: NVIDIA Test
│     │  │  ├─ GPU1: NVIDIA Test
│     │  │  └─ NIC0: mlx5_0
│     │  ├─ GPU2: NVIDIA Test
│     │  └─ PCIe bridge: 0000:00:03.0
│     │     ├─ eno1: 10 Gb/s
│     │     └─ eno2
│     └─ PCIe host bridge: 0000:20
│        ├─ GPU3: NVIDIA Test
│        └─ eth0
├─ Socket 1
│  └─ NUMA node 1: CPUs 4-7
│     └─ PCIe host bridge: 0000:80
│        └─ NIC1: mlx5_1
└─ Place unknown
   └─ PCIe host bridge: 0000:40
      └─ eth1
"""


def test_the_machine_is_drawn_with_sockets_nodes_bridges_and_switches(root) -> None:
    ids = ["0000:03:00.0", "0000:04:00.0", "0000:08:00.0", "0000:23:00.0"]
    found = with_the_machine(topology_of(machine_with(ids), root), root)
    assert str(found.machine) == DRAWN.strip()


def test_without_a_gpu_its_cpus_and_cards_are_drawn_all_the_same(root) -> None:
    found = with_the_machine(Topology((), (), "no driver"), root)
    assert [card.name for card in found.other_cards] == ["eno1", "eno2", "eth0", "eth1", "ib0"]
    assert [part.name for part in found.machine.parts] == ["Socket 0", "Socket 1", "Place unknown"]
    assert "ib0" in str(found)
    assert found.to_dict()["nodes"][1] == {"number": 1, "cpus": [4, 5, 6, 7], "socket": 1}


def test_the_way_over_pcie_is_read_from_the_tree(root) -> None:
    def way(first, second):
        return way_between(pci_device("a", first, root), pci_device("b", second, root))

    assert way("0000:03:00.0", "0000:04:00.0") == "PIX"
    assert way("0000:03:00.0", "0000:08:00.0") == "PHB"
    assert way("0000:03:00.0", "0000:23:00.0") == "NODE"
    assert way("0000:03:00.0", "0000:83:00.0") == "SYS"
    assert way("0000:03:00.0", "0000:ff:00.0") == "SYS"  # a device that /sys does not know


def test_cards_come_after_the_gpus_with_their_names_and_nodes(root) -> None:
    assert [card.name for card in network_cards(root)] == ["mlx5_0", "mlx5_1"]
    found = topology_of(
        machine_with(["0000:03:00.0", "0000:04:00.0"], ancestors={frozenset((0, 1)): 10}), root
    )
    assert [device.name for device in found.devices] == ["GPU0", "GPU1", "NIC0", "NIC1"]
    assert [card.model for card in found.network_cards] == ["mlx5_0", "mlx5_1"]
    assert [found.link("GPU0", name).label for name in ("GPU0", "GPU1", "NIC0", "NIC1")] == [
        "X",
        "PIX",
        "PIX",
        "SYS",
    ]
    assert (found.gpus[0].cpus, found.gpus[0].numa_node) == ((0, 1, 2, 3), 0)
    assert found.links == tuple(zip(*found.links, strict=True))
    assert found.gb_per_s(*found.gpus[:2]) == 48.0


def test_a_gpu_whose_memory_is_a_numa_node_says_so(root) -> None:
    driver = machine_with(["0000:03:00.0", "0000:04:00.0"])
    driver.gpus[1].memory_node = 9
    found = topology_of(driver, root)
    assert [gpu.memory_node for gpu in found.gpus] == [None, 9]
    assert "GPU1: NVIDIA Test, its memory is NUMA node 9" in str(found.machine)
    assert read_matrix(found.matrix).gpus[1].memory_node == 9


def test_nvlinks_are_counted_to_the_gpu_they_lead_to(root) -> None:
    links = {(0, 0): 1, (0, 1): 1, (1, 0): 0, (1, 1): 0, (0, 2): 2, (2, 0): 0}
    ids = ["0000:03:00.0", "0000:04:00.0", "0000:83:00.0"]
    found = topology_of(machine_with(ids, links, {frozenset((1, 2)): 50}), root)
    labels = [found.link(*pair).label for pair in (("GPU0", "GPU1"), ("GPU0", "GPU2"), ("GPU1", "GPU2"))]
    assert labels == ["NV2", "NV1", "SYS"]


def test_behind_a_switch_every_gpu_reaches_every_other_with_all_its_links(root) -> None:
    ids = ["0000:03:00.0", "0000:04:00.0", "0000:83:00.0"]
    links = {(gpu, number): "switch" for gpu in range(2) for number in range(18)}
    found = topology_of(machine_with(ids, links, {frozenset((0, 2)): 50, frozenset((1, 2)): 50}), root)
    assert found.link("GPU0", "GPU1").label == "NV18"
    assert found.link("GPU0", "GPU2").label == "SYS"


def test_what_the_driver_cannot_tell_is_read_from_the_tree(root) -> None:
    found = topology_of(machine_with(["0000:03:00.0", "0000:23:00.0"]), root)
    assert found.link("GPU0", "GPU1").label == "NODE"


def test_a_bus_id_is_written_as_in_sys() -> None:
    assert short_bus_id(b"00000000:3B:00.0\0") == short_bus_id("0000:3b:00.0") == "0000:3b:00.0"
    assert short_bus_id("00010000:01:00.0") == "10000:01:00.0"  # behind Intel's VMD


def lost(monkeypatch, number):
    """That GPU fell off the bus: the driver counts it, and gives no handle."""
    answer = fake_nvml.ANSWERS["nvmlDeviceGetHandleByIndex"]
    monkeypatch.setitem(
        fake_nvml.ANSWERS, "nvmlDeviceGetHandleByIndex", lambda m, n: None if n == number else answer(m, n)
    )


def test_a_gpu_that_fell_off_the_bus_is_named_and_the_others_keep_their_numbers(monkeypatch, root) -> None:
    links = {(1, 0): 2, (2, 0): 1}
    driver = machine_with(["0000:03:00.0", "0000:04:00.0", "0000:83:00.0"], links)
    lost(monkeypatch, 0)
    found = topology_of(driver, root)
    assert [gpu.name for gpu in found.gpus] == ["GPU1", "GPU2"]
    assert found.link("GPU1", "GPU2").label == "NV1"
    assert found.best_gpus(2).visible == "1,2"
    assert "The driver gets no answer from GPU 0: dmesg says why" in str(found)


def test_where_no_gpu_answers_that_is_said(monkeypatch, root) -> None:
    lost(monkeypatch, 0)
    found = topology_of(machine_with(["0000:03:00.0"]), root)
    assert "the driver knows no GPU that answers; The driver gets no answer from GPU 0" in str(found)


def test_a_driver_that_tells_neither_capability_nor_place_gets_assumed_rates(root) -> None:
    driver = machine_with(["0000:03:00.0", "0000:83:00.0"])
    driver.unknown = frozenset(
        {"nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetPciInfo", "nvmlDeviceGetMaxPcieLinkWidth"}
    )
    found = topology_of(driver, root)
    assert (found.capability, found.gpus[0].path, found.link("GPU0", "GPU1").label) == (None, (), "SYS")
    assert "assume PCIe 4 x16: the system does not report" in str(found)


def test_only_gpus_that_cuda_may_use_are_chosen(root) -> None:
    driver = machine_with(["0000:03:00.0", "0000:04:00.0", "0000:08:00.0", "0000:23:00.0"])
    assert topology_of(driver, root).best_gpus(2).visible == "0,1"
    found = topology_of(driver, root, setting="2,3")
    assert found.best_gpus(2).visible == "2,3"
    assert "CUDA_VISIBLE_DEVICES leaves out GPU 0-1.\nThe best are chosen among GPU2, GPU3." in str(found)
    assert (found.to_dict()["visible"], list(found.to_dict()["best"])) == ([2, 3], ["2"])
    with pytest.raises(AccelError, match="2 to choose from; CUDA_VISIBLE_DEVICES leaves out GPU 0-1"):
        found.best_gpus(3)
    assert "So no GPU can be chosen." in str(topology_of(driver, root, setting=""))


def test_this_process_reads_which_gpus_cuda_leaves_it(monkeypatch, root) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", machine_with(["0000:03:00.0", "0000:04:00.0"]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert read_topology(root).visible == (1,)


def test_a_slot_of_few_lanes_carries_less(root) -> None:
    driver = machine_with(["0000:03:00.0", "0000:04:00.0", "0000:08:00.0"], ancestors={})
    driver.gpus[0].width = (4, 4)
    found = topology_of(driver, root)
    assert found.gb_per_s(found.gpus[0], found.gpus[1]) == 12.0
    assert found.gb_per_s(found.gpus[1], found.gpus[2]) == 48.0
    assert "PHB: PCIe, through a PCIe host bridge, which is the CPU; about 12 to 48 GB/s" in str(found)
    assert found.assumed == ""
    assert found.to_dict()["devices"][0]["pcie"] == {"generation": 5, "lanes": 4}


def test_behind_a_switch_a_gpu_with_links_down_reaches_the_others_by_those_left(root) -> None:
    driver = fake_nvml.eight_h100()
    driver.gpus[5].nvlinks |= dict.fromkeys(range(12, 18))
    found = topology_of(driver, root)
    assert {found.link("GPU5", gpu.name).label for gpu in found.gpus if gpu.index != 5} == {"NV12"}
    assert found.nvlinks.pairs == ()
    assert str(found.nvlinks).endswith(
        "GPU0–GPU7, each with 18 NVLinks, and with all of them to any other; GPU5 has only 12"
    )


def test_damaged_files_of_a_device_tell_nothing(root) -> None:
    folder = root / "sys/bus/pci/devices/0000:03:00.0"
    (folder / "local_cpulist").write_text("0-x\n")
    (folder / "numa_node").write_text("²\n", encoding="utf-8")
    found = pci_device("GPU0", "0000:03:00.0", root)
    assert (found.cpus, found.numa_node) == ((), None)


def test_on_a_machine_of_one_node_devices_that_name_none_are_at_that_node(root) -> None:
    def way():
        return way_between(pci_device("a", "0000:24:00.0", root), pci_device("b", "0000:44:00.0", root))

    assert way() == "SYS"
    shutil.rmtree(root / "sys/devices/system/node/node1")
    assert way() == "NODE"

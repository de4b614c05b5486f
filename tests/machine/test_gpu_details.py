"""The description of a GPU: drivers of other machines, asked through the same calls as a real one."""

from __future__ import annotations

import json
import sys

import pytest

from accel.machine.clock_reasons import in_words
from accel.machine.gpu_details.notes import notes_of
from accel.machine.gpus import Gpu, read_gpus
from accel.machine.nvml import why_silent
from tests.machine import fake_nvml
from tests.machine.fake_nvml import FakeNvml


@pytest.fixture
def driver(monkeypatch):
    """Puts a driver in the place of the real one, and asks for its GPUs as `accel.machine()` does."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(nvml: FakeNvml) -> tuple[Gpu, ...]:
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        return read_gpus(with_torch=False)

    return install


def test_a_gpu_of_a_server_is_described_in_full(driver) -> None:
    gpus = driver(fake_nvml.eight_h100())
    assert len(gpus) == 8
    found = gpus[5].details
    assert (found.nvml_index, found.bus_id, found.free_bytes) == (5, "0000:06:00.0", 79 * 2**30)
    assert found.uuid.startswith("GPU-5f0a5c3e")
    assert (found.clocks.sm_mhz, found.clocks.most_sm_mhz, found.clocks.most_memory_mhz) == (345, 1980, 2619)
    assert (found.power.draw_w, found.power.limit_w, found.power.default_limit_w) == (71.4, 700.0, 700.0)
    heat = found.temperatures
    assert (heat.now_c, heat.slowdown_c, heat.shutdown_c) == (34, 87, 92)
    assert str(found.pcie) == "PCIe 5 x16"
    assert (found.numa_node, found.cpus) == (1, tuple(range(56, 112)))
    assert (found.has_ecc, found.is_persistent, str(found.mig)) == (True, True, "off")
    assert str(found.nvlinks) == "18 NVLink 4.0 to NVSwitch"
    assert [peer.peer for peer in found.peers] == [0, 1, 2, 3, 4, 6, 7]
    assert {peer.words for peer in found.peers} == {"read, write, NVLink and atomics"}
    assert notes_of(found) == ()


def test_the_driver_is_closed_again(driver) -> None:
    nvml = fake_nvml.eight_h100()
    driver(nvml)
    assert nvml.opened == 0


def test_two_gpus_without_peer_access_say_so_with_the_reason(driver) -> None:
    first, second = (gpu.details for gpu in driver(fake_nvml.two_rtx_4090()))
    (peer,) = first.peers
    assert peer.is_possible is False
    assert str(peer) == "GPU 1: no read, write, NVLink or atomics (the GPU does not support it)"
    assert first.nvlinks is None
    (note,) = notes_of(first)
    assert note.startswith("does not reach the memory of any other GPU, the GPU does not support it")
    assert first.slowed_by == ("idle",)
    assert second.slowed_by == ("the power limit", "heat (slowed down by the driver)")
    notes = "\n".join(notes_of(second))
    assert "held back by the power limit" in notes
    assert "fans" in notes
    assert "300 W of the usual 450 W: nvidia-smi -pl 450" in notes
    assert "PCIe x" not in notes  # slot and GPU agree on four lanes, as far as NVML alone can tell


def test_each_way_to_another_gpus_memory_has_its_own_answer(driver) -> None:
    nvml = fake_nvml.two_rtx_4090()
    nvml.p2p_status = None
    nvml.p2p = {(0, 1, 0): 0, (0, 1, 1): 0, (0, 1, 2): 5}
    (peer,) = driver(nvml)[0].details.peers
    assert (
        peer.words
        == "read and write; no NVLink (not supported between these two); atomics not reported by the driver"
    )
    assert peer.is_possible is True
    nvml.p2p[0, 1, 1] = 3
    found = driver(nvml)[0].details
    assert any("choose GPUs of one socket: %accel topology" in note for note in notes_of(found))
    nvml.p2p = {}
    (peer,) = driver(nvml)[0].details.peers
    assert (peer.is_possible, peer.words) == (
        None,
        "read, write, NVLink and atomics not reported by the driver",
    )


def test_a_slot_with_fewer_lanes_than_the_gpu_has_shows_in_sys(tmp_path) -> None:
    from accel.machine.gpu_details import read_gpu_details

    folder = tmp_path / "sys/bus/pci/devices/0000:05:00.0"
    folder.mkdir(parents=True)
    (folder / "max_link_width").write_text("16\n")
    found = read_gpu_details(fake_nvml.two_rtx_4090(), 1, tmp_path)
    assert any(note.startswith("runs at PCIe x4 of x16, copies take up to 4 times as long: the slot")
               for note in notes_of(found))  # fmt: skip


@pytest.mark.parametrize(
    ("generation", "width", "expected"),
    [
        ((4, 4, 4), (8, 16), "PCIe x8 of x16, copies take up to 2 times as long: look at slot"),
        ((3, 3, 4), (16, 16), "is in a slot of PCIe 3 and could do 4"),
        ((1, 4, 4), (16, 16), ""),  # saves power while it is idle
        ((4, 4, None), (None, 16), ""),
    ],
)
def test_a_slow_pcie_link_is_noted(generation, width, expected) -> None:
    from accel.machine.gpu_details import read_gpu_details

    nvml = fake_nvml.two_rtx_4090()
    nvml.p2p_status = 0
    nvml.gpus[0].generation, nvml.gpus[0].width = generation, width
    notes = "\n".join(notes_of(read_gpu_details(nvml, 0)))
    assert expected in notes if expected else not notes


def test_what_sys_tells_of_a_gpu_stands_in_for_the_driver(tmp_path) -> None:
    from accel.machine.gpu_details import read_gpu_details

    folder = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")
    (folder / "local_cpulist").write_text("8-11\n")
    nvml = fake_nvml.two_rtx_4090()
    assert (read_gpu_details(nvml, 0, tmp_path).numa_node, read_gpu_details(nvml, 0, tmp_path).cpus) == (
        1,
        (8, 9, 10, 11),
    )
    (folder / "numa_node").write_text("-1\n")  # a machine of one node
    assert read_gpu_details(nvml, 0, tmp_path).numa_node is None
    assert read_gpu_details(nvml, 1, tmp_path).cpus == ()


def test_links_that_are_down_behind_a_switch_are_noted(driver) -> None:
    nvml = fake_nvml.eight_h100()
    nvml.gpus[2].nvlinks = {**nvml.gpus[2].nvlinks, 3: None, 4: None}
    found = driver(nvml)[2].details
    assert str(found.nvlinks) == "16 of 18 NVLink 4.0 to NVSwitch"
    assert any("16 of its 18 NVLinks" in note for note in notes_of(found))


def test_nvlinks_lead_to_gpus_and_to_the_cpu_by_name(driver) -> None:
    nvml = fake_nvml.eight_h100()
    nvml.gpus[0].nvlinks = {0: 1, 1: 1, 2: 3, 3: "cpu", 4: None}
    nvml.gpus[0].nvlink_version = 3
    found = driver(nvml)[0].details.nvlinks
    assert found.peers == (("CPU", 1), ("GPU 1", 2), ("GPU 3", 1))
    assert str(found) == "4 of 5 NVLink 2.2 (1 to CPU, 2 to GPU 1, 1 to GPU 3)"


def test_of_a_divided_gpu_cuda_sees_one_instance(driver, monkeypatch) -> None:
    (gpu,) = driver(fake_nvml.divided_a100())
    assert (gpu.name, gpu.memory_bytes) == ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20 * 2**30)
    assert gpu.capability == (8, 0)
    mig = gpu.details.mig
    assert str(mig) == "on, 2 instances"
    assert [(each.gpu_instance, each.multiprocessors) for each in mig.instances] == [(1, 42), (9, 14)]
    notes = "\n".join(notes_of(gpu.details))
    assert "CUDA_VISIBLE_DEVICES (3g.20gb: MIG-11111111-aaaa; 1g.5gb: MIG-22222222-bbbb)" in notes
    assert "ECC will be off after the next reset" in notes
    assert str(gpu.details.nvlinks) == "none of 12 NVLinks is up"


def test_a_divided_gpu_without_instances_is_not_seen(driver) -> None:
    nvml = fake_nvml.divided_a100()
    nvml.gpus[0].instances = ()
    assert driver(nvml) == ()


def test_an_old_driver_leaves_questions_open(driver) -> None:
    (gpu,) = driver(fake_nvml.old_driver())
    assert str(gpu) == "Tesla K80, 11 GiB, compute capability 3.7"
    found = gpu.details
    assert found.uuid == "GPU-dd0000"
    assert (found.clocks.sm_mhz, found.power.draw_w, found.temperatures.now_c) == (None, None, None)
    assert (found.slowed_by, found.nvlinks, found.mig, found.is_persistent) == (None, None, None, None)
    told = dict(found.facts)
    open_questions = {
        "SM clock",
        "Power",
        "Temperature",
        "Clocks held back by",
        "PCIe lanes",
        "Near to CPUs",
        "ECC",
    }
    assert {told[what] for what in open_questions} == {"not reported by the driver"}
    assert notes_of(found) == ()


def test_a_gpu_that_shares_the_cpus_memory_is_there_without_a_size(driver) -> None:
    nvml = fake_nvml.old_driver()
    nvml.gpus[0].memory = None
    (gpu,) = driver(nvml)
    assert str(gpu) == "Tesla K80, memory unknown (shared with the CPU?), compute capability 3.7"
    assert gpu.details.free_bytes is None


def test_a_broken_driver_means_no_gpu_and_says_why(driver) -> None:
    assert driver(fake_nvml.broken()) == ()
    assert why_silent() == "no NVIDIA driver answers (Driver/library version mismatch)"


def test_a_gpu_that_fell_off_the_bus_leaves_the_others(driver, monkeypatch) -> None:
    nvml = fake_nvml.eight_h100()
    answer = fake_nvml.ANSWERS["nvmlDeviceGetHandleByIndex"]
    monkeypatch.setitem(
        fake_nvml.ANSWERS, "nvmlDeviceGetHandleByIndex", lambda m, n: None if n == 3 else answer(m, n)
    )
    gpus = driver(nvml)
    assert [gpu.details.nvml_index for gpu in gpus] == [0, 1, 2, 4, 5, 6, 7]


def test_details_can_be_written_as_json_and_shown_as_a_table(driver) -> None:
    (gpu,) = driver(fake_nvml.divided_a100())
    read_back = json.loads(json.dumps(gpu.details.to_dict()))
    assert read_back["mig"]["instances"][1]["uuid"] == "MIG-22222222-bbbb"
    html = gpu.details._repr_mimebundle_()["text/html"]
    assert "MIG-22222222-bbbb" in html
    assert "NUMA node" in str(gpu.details)


def test_a_reason_that_is_new_is_told_by_its_code() -> None:
    assert in_words(0) == ()
    assert in_words(0x10004) == ("the power limit", "a reason with the code 0x10000")

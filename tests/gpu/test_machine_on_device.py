"""The description of a GPU against torch's and nvidia-smi's own. Skipped where there is none, or MIG divides it."""

from __future__ import annotations

import csv
import shutil
import subprocess

import pytest
import torch

from accel.machine import Gpu, read_machine
from accel.machine.gpus import read_gpus

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
needs_nvidia_smi = pytest.mark.skipif(
    shutil.which("nvidia-smi") is None, reason="no nvidia-smi on this machine"
)


def nvidia_smi(*columns: str) -> list[dict[str, str]]:
    """Its answers by column, in its order of GPUs."""
    command = ["nvidia-smi", f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits"]
    lines = subprocess.check_output(command, text=True).splitlines()
    return [dict(zip(columns, row, strict=True)) for row in csv.reader(lines, skipinitialspace=True)]


@pytest.fixture
def gpus() -> tuple[Gpu, ...]:
    found = read_gpus()
    if any(gpu.details is None for gpu in found):
        pytest.skip("NVML does not answer here")
    if any(gpu.details.mig is not None and gpu.details.mig.is_on for gpu in found):
        pytest.skip("MIG divides a GPU of this machine")
    return found


def test_it_is_the_gpu_that_torch_sees(gpus) -> None:
    assert len(gpus) == torch.cuda.device_count()
    for gpu in gpus:
        if not gpu.has_sure_index:
            continue
        seen = torch.cuda.get_device_properties(gpu.index)
        assert (gpu.name, gpu.capability) == (seen.name, (seen.major, seen.minor))
        # NVML counts what the driver keeps for itself, too.
        assert 0.9 * gpu.memory_bytes < seen.total_memory <= gpu.memory_bytes
        assert gpu.details.uuid == f"GPU-{seen.uuid}"


@needs_nvidia_smi
def test_what_stays_the_same_is_what_nvidia_smi_says(gpus) -> None:
    told = nvidia_smi(
        "index", "name", "uuid", "pci.bus_id", "memory.total", "clocks.max.sm", "clocks.max.memory", "compute_cap",
        "pcie.link.gen.max", "pcie.link.width.max", "power.default_limit", "ecc.mode.current", "persistence_mode",
    )  # fmt: skip
    for gpu in gpus:
        details, expected = gpu.details, told[gpu.details.nvml_index]
        own = {
            "index": details.nvml_index, "name": gpu.name, "uuid": details.uuid,
            "pci.bus_id": details.bus_id and f"0000{details.bus_id}".upper(), "memory.total": gpu.memory_bytes // 2**20,
            "clocks.max.sm": details.clocks.most_sm_mhz, "clocks.max.memory": details.clocks.most_memory_mhz,
            "compute_cap": "{}.{}".format(*gpu.capability),
            "pcie.link.gen.max": details.pcie.most_generation, "pcie.link.width.max": details.pcie.most_width,
            "power.default_limit": details.power.default_limit_w and f"{details.power.default_limit_w:.2f}",
            "ecc.mode.current": _enabled(details.has_ecc), "persistence_mode": _enabled(details.is_persistent),
        }  # fmt: skip
        # What one does not know the other need not either: "[N/A]".
        assert {name: str(value) for name, value in own.items() if value is not None} == {
            name: expected[name] for name, value in own.items() if value is not None
        }
        assert all(expected[name].startswith("[") for name, value in own.items() if value is None)


@needs_nvidia_smi
def test_the_numbers_are_those_that_the_driver_uses(gpus) -> None:
    told = {each["uuid"]: int(each["index"]) for each in nvidia_smi("index", "uuid")}
    assert {gpu.details.uuid: gpu.details.nvml_index for gpu in gpus}.items() <= told.items()


@needs_nvidia_smi
def test_the_driver_is_the_one_that_nvidia_smi_names() -> None:
    assert read_machine(again=True).software.driver == nvidia_smi("driver_version")[0]["driver_version"]


def test_what_changes_is_within_its_limits(gpus) -> None:
    for details in (gpu.details for gpu in gpus):
        clocks, power, heat = details.clocks, details.power, details.temperatures
        if clocks.sm_mhz is not None and clocks.most_sm_mhz is not None:
            assert 0 < clocks.sm_mhz <= clocks.most_sm_mhz
        if power.draw_w is not None and power.default_limit_w is not None:
            assert 1 < power.draw_w < 2 * power.default_limit_w  # watts, not milliwatts
        if heat.now_c is not None and heat.slowdown_c is not None and heat.shutdown_c is not None:
            assert 0 < heat.now_c < heat.slowdown_c <= heat.shutdown_c < 150
        assert details.free_bytes is None or details.free_bytes > 0


def test_peers_are_reached_where_cuda_says_so(gpus) -> None:
    if len(gpus) < 2:
        pytest.skip("one GPU has no other to reach")
    torch_number = {gpu.details.nvml_index: gpu.index for gpu in gpus}
    for gpu in gpus:
        for peer in gpu.details.peers:
            if peer.peer in torch_number and peer.is_possible is not None:
                reached = torch.cuda.can_device_access_peer(gpu.index, torch_number[peer.peer])
                assert peer.is_possible == reached


def test_a_running_product_is_seen_by_the_driver(gpus) -> None:
    """The clock goes up, and nothing says any more that the GPU is idle."""
    matrix = torch.randn(8192, 8192, device=f"cuda:{gpus[0].index}")
    for _ in range(200):
        matrix @ matrix
    busy = read_gpus()[0].details
    torch.cuda.synchronize()
    assert busy.slowed_by is None or "idle" not in busy.slowed_by
    assert busy.free_bytes < gpus[0].memory_bytes - matrix.nbytes


def _enabled(value: bool | None) -> str | None:
    return None if value is None else "Enabled" if value else "Disabled"

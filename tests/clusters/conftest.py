"""The test beds, each brought up once, and what they lack where they cannot be."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from accel.distributed.jobs.cluster import Cluster
from tests.clusters import network_hosts as hosts_bed
from tests.clusters import slurm_bed


def _missing(reason: str) -> None:
    """A skip with the reason; in CI, which installs every package, a failure where one is missing."""
    if os.environ.get("ACCEL_REQUIRE_CLUSTERS") == "1" and "Debian:" in reason:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Sockets have short paths."""
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def slurm() -> Iterator[slurm_bed.SlurmBed]:
    """Two nodes under a controller; nothing of them is left afterwards."""
    if reason := slurm_bed.why_not():
        _missing(reason)
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    try:
        with slurm_bed.slurm(folder / "s") as bed, pytest.MonkeyPatch.context() as patch:
            for name, value in bed.variables.items():
                patch.setenv(name, value)
            yield bed
        assert [each.cmdline() for each in bed.processes()] == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def hosts() -> Iterator[hosts_bed.NetworkHosts]:
    """Two network namespaces."""
    if reason := hosts_bed.why_not():
        _missing(reason)
    folder = Path(tempfile.mkdtemp(prefix="ab-"))
    try:
        with hosts_bed.network_hosts(folder) as found:
            yield found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(request, tmp_path) -> Cluster:
    """One of the test beds by its name, with jobs in this test's folder, whose name has a space."""
    jobs = str(tmp_path / "my jobs")
    if request.param == "torchrun":
        return Cluster(ranks_per_node=2, folder=jobs)
    if request.param == "slurm":
        return request.getfixturevalue("slurm").cluster(jobs)
    if shutil.which("mpirun") is None:
        _missing("needs mpirun (Debian: openmpi-bin)")
    over = request.getfixturevalue("hosts").cluster(jobs)
    return (
        over if request.param == "mpirun" else msgspec.structs.replace(over, launcher="torchrun", options=())
    )

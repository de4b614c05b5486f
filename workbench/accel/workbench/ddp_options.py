"""How a cell is run on ranks: how many, with what, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel.bounds import check_count, check_ranks
from accel.distributed.cells.run_options import RunOptions
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.distributed.jobs.cluster import Cluster
    from accel.distributed.ranks.rank_devices import Backend, RankDevices


@dataclass(frozen=True)
class DdpOptions:
    """How a cell is run on ranks; see `accel.ddp`. With a cluster its launcher starts them, as many as it says."""

    n: int = 2
    threads: int | None = None
    backend: Backend = "auto"
    gpus: str = "auto"
    all_output: bool = False
    run: RunOptions = field(default_factory=RunOptions)
    cluster: Cluster | None = None

    def __post_init__(self) -> None:
        check = (
            check_ranks if self.cluster is None else check_count
        )  # a cluster may have room for more than this machine
        check(f"-n {self.n}", self.n)
        if self.threads is not None:
            check_count(f"--threads {self.threads}", self.threads)


def devices_for(options: DdpOptions) -> RankDevices:
    """What its ranks train on and talk by; of a job each rank says for itself what its machine has.

    >>> devices_for(DdpOptions(n=2)).backend
    'gloo'
    """
    from accel.distributed.ranks.rank_devices import RankDevices, rank_devices

    if options.cluster is None:
        return rank_devices(options.n, backend=options.backend, gpus=options.gpus)
    asked = f"--launcher {options.cluster.launcher}"
    if options.backend == "ccl":
        raise AccelError(
            f"{asked} --backend ccl", because="oneCCL is for ranks of this machine", do="Use gloo."
        )
    if options.gpus != "auto":
        raise AccelError(
            f"{asked} --gpus {options.gpus}", because="each machine gives its own GPUs to its ranks", do="Leave --gpus out.",
        )  # fmt: skip
    return RankDevices(options.backend, ())

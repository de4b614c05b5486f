"""How the ranks of a job find each other: by a file where they share a machine, else at the address of the first."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import psutil

from accel.distributed.jobs.cluster import Cluster
from accel.distributed.jobs.job_folder import JobFolder
from accel.distributed.ranks.process_group import met_at_file
from accel.distributed.ranks.rank_place import RankPlace
from accel.errors import AccelError

_PATIENCE_S = 120.0  # ranks of a large job start within a minute or two of each other
_LOOK_S = 0.1
_MEETING = "meeting.json"
_ANYWHERE = "192.0.2.1"  # an address for documents (RFC 5737): the way there is the way out


class Address(msgspec.Struct, frozen=True):
    """Where rank 0 listens in its latest attempt; the system chose the port, so that two jobs never want the same."""

    host: str
    port: int
    attempt: int


def choose_interface(place: RankPlace, cluster: Cluster) -> None:
    """Let gloo and NCCL talk over the interface that leads to the other ranks: loopback where all are here.

    What the cluster's own variables say holds.
    """
    name = (
        "lo"
        if place.is_alone
        else cluster.interface or interface_among([place.first_host, *dict(cluster.hosts)])
    )
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if name and variable not in cluster.env:
            os.environ[variable] = name


def interface_among(hosts: Sequence[str]) -> str:
    """The interface that leads to other machines, whose names these are; a machine's own name may lead to its loopback.

    >>> interface_among(["node1", "node2"])
    'eth0'
    """
    found = [interface_towards(host) for host in [*hosts, _ANYWHERE]]
    return next((name for name in found if name not in ("", "lo")), found[0])


def interface_towards(host: str) -> str:
    """The network interface whose address this machine would use to reach a host; empty where that is unknown.

    >>> interface_towards("127.0.0.1")
    'lo'
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing
            own = probe.getsockname()[0]
    except OSError:
        return ""
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.family == socket.AF_INET and each.address == own for each in addresses):
            return name
    return ""


def meet(place: RankPlace, attempt: int, folder: JobFolder) -> tuple[Any, int]:
    """The store by which the ranks of this attempt meet, and the number of the attempt, the same for all of them.

    >>> store, attempt = meet(place, attempt, folder)

    On one machine it is a file in the job's folder, and no port is open. Else rank 0 listens, and writes where into the folder;
    the others take its number, for torchrun counts restarts on each machine for itself.
    """
    if place.is_alone:
        return met_at_file(str(folder.path / f"meeting-{attempt}"), place.world_size), attempt
    if place.rank == 0:
        with suppress(AccelError):
            attempt = max(attempt, folder.read_json(_MEETING, Address).attempt + 1)
        store = _tcp_store(place.first_host, 0, place.world_size, is_first=True)
        folder.write_json(_MEETING, Address(place.first_host, store.port, attempt))
        return _of_attempt(store, attempt), attempt
    return _met(place, folder)


def _met(place: RankPlace, folder: JobFolder) -> tuple[Any, int]:
    """Nobody listens any more at the address of an earlier attempt: then rank 0 has not written the new one yet."""
    import torch.distributed as dist

    give_up_at = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up_at:
        with suppress(AccelError, dist.DistError, RuntimeError):
            address = folder.read_json(_MEETING, Address)
            store = _tcp_store(address.host, address.port, place.world_size, is_first=False)
            return _of_attempt(store, address.attempt), address.attempt
        time.sleep(_LOOK_S)
    raise AccelError(
        f"Rank {place.rank} meets the others",
        because=f"rank 0 on {place.first_host} did not answer within {_PATIENCE_S:.0f} s",
        do="See whether that host can be reached from the others by this name, and whether its ports are open to them.",
    )


def _of_attempt(store: Any, attempt: int) -> Any:
    import torch.distributed as dist

    return dist.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]


def _tcp_store(host: str, port: int, world_size: int, *, is_first: bool) -> Any:
    import torch.distributed as dist

    return dist.TCPStore(  # type: ignore[attr-defined]
        host, port, world_size, is_first, timeout=timedelta(seconds=_PATIENCE_S if is_first else 10.0),
        wait_for_workers=False,
    )  # fmt: skip

"""Two "hosts" on this machine: network namespaces on a bridge of their own, each with a name and a CPU, reached as by ssh."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from accel.distributed.jobs.cluster import Cluster

NET = "10.99"
AGENT = """#!/bin/bash
# Called as ssh is: options, a host, a command.
while [[ "$1" == -* ]]; do shift; done
host=$1; shift
case $host in
{cases}
  *) echo "no host $host" >&2; exit 255 ;;
esac
exec taskset -c "$cpu" ip netns exec "$ns" unshare --uts bash -c "hostname $host; $*"
"""


def why_not() -> str:
    """What this machine lacks for it; empty where it can be brought up."""
    if os.geteuid() != 0:
        return "needs root: network namespaces are made"
    if shutil.which("ip") is None:
        return "needs ip (Debian: iproute2)"
    name = f"ab{secrets.token_hex(3)}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"network namespaces are not allowed here ({done.stderr.strip()})"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return ""


@dataclass(frozen=True)
class NetworkHosts:
    """Their addresses, and the program that runs a command on one of them."""

    addresses: tuple[str, ...]
    namespaces: tuple[str, ...]
    links: tuple[str, ...]
    agent: Path

    def cluster(self, jobs: str) -> Cluster:
        """mpirun with a rank on each of them, and job folders there."""
        net = self.addresses[0].rsplit(".", 1)[0] + ".0/24"
        return Cluster(
            launcher="mpirun", hosts=tuple((address, 1) for address in self.addresses), remote_shell=str(self.agent),
            folder=jobs, options=("--mca", "oob_tcp_if_include", net),
        )  # fmt: skip

    def slow_down(self, mbit_per_s: int) -> None:
        """What each of them sends goes at this rate at most."""
        for namespace in self.namespaces:
            rate = ("rate", f"{mbit_per_s}mbit", "burst", "256kb", "latency", "50ms")
            subprocess.run(
                ["ip", "netns", "exec", namespace, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *rate],
                check=True, capture_output=True, text=True,
            )  # fmt: skip

    def cut(self, host: int) -> None:
        """Take the host's link down, in both directions."""
        _ip("link", "set", self.links[host], "down")

    def mend(self, host: int) -> None:
        """The link is up again."""
        _ip("link", "set", self.links[host], "up")


@contextmanager
def network_hosts(folder: Path, count: int = 2) -> Iterator[NetworkHosts]:
    """Bring them up; their traffic stays on a bridge that leads nowhere else.

    >>> with network_hosts(tmp_path) as hosts:
    ...     hosts.addresses
    ('10.99.7.1', '10.99.7.2')
    """
    tag, third = secrets.token_hex(2), 1 + secrets.randbelow(250)
    bridge = f"abr{tag}"
    addresses = tuple(f"{NET}.{third}.{number + 1}" for number in range(count))
    namespaces = tuple(f"ab{tag}{number}" for number in range(count))
    links = tuple(f"av{tag}{number}" for number in range(count))
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{NET}.{third}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for address, namespace, link in zip(addresses, namespaces, links, strict=True):
            _ip("netns", "add", namespace)
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", link, "master", bridge, "up")
            _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
        agent = folder / "agent.sh"
        cpus = sorted(os.sched_getaffinity(0))
        cases = "\n".join(
            f"  {address}) ns={namespace} cpu={cpus[number % len(cpus)]} ;;"
            for number, (address, namespace) in enumerate(zip(addresses, namespaces, strict=True))
        )
        agent.write_text(AGENT.format(cases=cases))
        agent.chmod(0o755)
        yield NetworkHosts(addresses, namespaces, links, agent)
    finally:
        for namespace in namespaces:
            _end_all_in(namespace)
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", namespace)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", bridge)


def _end_all_in(namespace: str) -> None:
    done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in done.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), 9)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

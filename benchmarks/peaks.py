"""The most that this machine can do, as `%accel peaks --links` measures it, compared with other tools' figures.

A peak that is too low makes every roofline too kind, so peers take turns with ours, as many threads each, the best of
all rounds on either side: products of matrices through numpy's OpenBLAS, a copy by `numpy.copyto` (one thread: torch
may be faster, never much slower), and bytes through a bare socket on 127.0.0.1 (what Gloo's all-reduce is made of).
`float32_of_numpy` is our rate over the peer's: 1 or more is as it should be. `others_share` is the share of
the CPUs that other processes took; figures count only where it is near 0. `seconds` is how long measuring took, the last time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.machine_line import report

MEBIBYTE = 1 << 20
COPIED_BYTES = 128 * MEBIBYTE
NUMPY = """
import json, sys, time
import numpy as np
budget_s, copied = float(sys.argv[1]), int(sys.argv[2])
def best(work):
    until, found = time.perf_counter() + budget_s, 9e9
    while time.perf_counter() < until:
        began = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - began)
    return found
rates = {}
for dtype in ("float32", "float64"):
    rates[dtype] = 0.0
    for rows in (512, 1024, 2048):
        a = np.linspace(-1, 1, rows * rows, dtype=dtype).reshape(rows, rows)
        out = np.empty_like(a)
        rates[dtype] = max(rates[dtype], 2 * rows**3 / best(lambda: np.matmul(a, a, out=out)))
source, target = np.ones(copied // 2, np.uint8), np.zeros(copied // 2, np.uint8)
rates["copy"] = 2 * source.nbytes / best(lambda: np.copyto(target, source))
print(json.dumps(rates))
"""
SOCKET = """
import json, socket, subprocess, sys, time
size, rounds = int(sys.argv[1]), int(sys.argv[2])
listening = socket.create_server(("127.0.0.1", 0))
echo = subprocess.Popen([sys.executable, "-c", '''
import socket, sys
size, peer = int(sys.argv[1]), socket.create_connection(("127.0.0.1", int(sys.argv[2])))
buffer = memoryview(bytearray(size))
while got := peer.recv_into(buffer):
    left = size - got
    while left:
        left -= peer.recv_into(buffer[size - left:])
    peer.sendall(b"x")
''', str(size), str(listening.getsockname()[1])])
peer, _ = listening.accept()
data, best = memoryview(bytes(size)), 9e9
for _ in range(rounds):
    began = time.perf_counter()
    peer.sendall(data)
    peer.recv(1)
    best = min(best, time.perf_counter() - began)
peer.close()
echo.wait()
print(json.dumps(size / best))
"""


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="one short round, and nothing is written")
    arguments.add_argument("--rounds", type=int, default=5, help="of all there is (default: 5)")
    given = arguments.parse_args()
    quick, rounds = given.quick, 1 if given.quick else given.rounds

    import torch

    from accel.machine.peaks.measuring import measure_links, measure_peaks
    from accel.machine.peaks.other_work import OtherWork

    with OtherWork(threads=torch.get_num_threads()) as others:
        peers, ours = compare(rounds=rounds, budget_s=0.1 if quick else 0.4)
        peaks, (copies, all_reduces) = measure_peaks(), measure_links()
        for _ in range(rounds - 1):
            peaks = measure_peaks().higher(peaks)
            all_reduces = measure_links()[1].shorter(all_reduces)
    cpu = peaks.devices[0]
    figures = {f"{dtype}_gflop_per_s": rate / 1e9 for dtype, rate in cpu.flops_per_s}
    figures |= {
        "memory_gb_per_s": cpu.bytes_per_s / 1e9, "caches_gb_per_s": cpu.cache_bytes_per_s / 1e9,
        "core_caches_gb_per_s": cpu.core_cache_bytes_per_s / 1e9, "seconds": peaks.seconds,
        "float32_of_numpy": ours["float32"] / peers["float32"], "float64_of_numpy": ours["float64"] / peers["float64"],
        "memory_of_numpy_copy": ours["memory"] / peers["copy"], "others_share": others.share, "rounds": rounds,
    }  # fmt: skip
    for gpu in peaks.devices[1:]:
        figures |= {f"{dtype}_tflop_per_s/{gpu.device}": rate / 1e12 for dtype, rate in gpu.flops_per_s}
        figures |= {
            f"memory_tb_per_s/{gpu.device}": gpu.bytes_per_s / 1e12, f"cache_tb_per_s/{gpu.device}": gpu.cache_bytes_per_s / 1e12,
        }  # fmt: skip
    for row in all_reduces.rows:
        name = f"all_reduce_{row.backend}_{row.ranks}_ranks_{row.bytes // 1024}_kib"
        figures |= {f"{name}_ms": row.seconds * 1e3, f"{name}_bus_gb_per_s": row.bus_bytes_per_s / 1e9}
        if row.device == "cpu" and row.bytes >= MEBIBYTE:
            figures[f"{name}_of_socket"] = row.bus_bytes_per_s / peers[f"socket_{row.bytes}"]
    report(
        "peaks", {name: float(f"{value:.4g}") for name, value in figures.items()}, is_full_run=not quick, rounds=rounds,
        peers={name: float(f"{rate / 1e9:.4g}") for name, rate in peers.items()},
        peers_unit="GFLOP/s, or GB/s for the copy and the sockets",
        was_busy=peaks.was_busy or all_reduces.was_busy,
        gpus=[gpu.to_dict() for gpu in peaks.devices[1:]], copies=peaks.copies.higher(copies).to_dict(),
        notes=[*peaks.notes, *all_reduces.notes],
    )  # fmt: skip


def compare(*, rounds: int, budget_s: float) -> tuple[dict[str, float], dict[str, float]]:
    """The best rates of the peers and of ours, measured in turns."""
    import torch

    from accel.machine.peaks.device_rates import moving, products
    from accel.machine.peaks.timing import wall

    peers: dict[str, float] = {}
    ours: dict[str, float] = {}
    for _ in range(rounds):
        rates = child(NUMPY, budget_s, COPIED_BYTES, threads=torch.get_num_threads())
        sockets = {
            f"socket_{size}": child(SOCKET, size, 20 if rounds == 1 else 200) for size in socket_sizes()
        }
        for name, rate in {**rates, **sockets}.items():
            peers[name] = max(rate, peers.get(name, 0.0))
        mine = {dtype: products(dtype, "cpu", wall, budget_s) for dtype in ("float32", "float64")}
        for name, rate in {**mine, "memory": moving(3 * COPIED_BYTES, "cpu", wall)}.items():
            ours[name] = max(rate, ours.get(name, 0.0))
    return peers, ours


def socket_sizes() -> list[int]:
    """The sizes of all-reduce that are large enough for bandwidth."""
    from accel.machine.peaks.all_reducing import SIZES_BYTES

    return [size for size in SIZES_BYTES if size >= MEBIBYTE]


def child(code: str, *arguments: object, threads: int = 1) -> Any:
    """What a fresh process that runs this code prints, as JSON."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()

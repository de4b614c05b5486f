"""Hostile cells and poor conditions, each through try, ddp and sweep in a kernel of its own: what survives, how soon users know.

`survived` of `kernels`: the kernel goes on after the commands. `state_equal` of `runs`: model, optimizer, random numbers,
environment, folder and files are bit for bit as before. `answered`: a result, or an error of ours in words. `works_again`: after
all that, the same cell without its hostile line is tried and trained on ranks. `left_…` count what kernels leave behind when they
have ended: processes, temporary files, shared memory. `seconds_p50` and `seconds_max` are from the hostile line to the answer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.hostile_cells import CONDITIONS, HOSTILE_LINES, QUICK
from benchmarks.machine_line import report, stored

TIMEOUT_S = 4.0
SETUP = """
import builtins, ctypes, os, pathlib, resource, signal, socket, subprocess, sys, tempfile, threading, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
kept, home = [], os.getpid()
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,))), batch_size=8)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters())
"""
CELL = """
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
HOSTILE_CELL = """
for number, (x, y) in enumerate(loader):
    if os.getpid() != home and number == 3:
        try:
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(
                repr(time.monotonic()).encode(), socket.MSG_DONTWAIT, {address!r}
            )
        except OSError:
            pass
        {line}
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def kernel(kind: str) -> dict[str, Any]:
    """All commands with one hostile line, in this process; what came of each."""
    import torch

    from accel.distributed.cells.run_options import RunOptions
    from accel.workbench import Workbench, trial_start
    from accel.workbench.ddp_options import DdpOptions
    from accel.workbench.rank_sweep import sweep_of
    from accel.workers.samples import Effort
    from accel.workers.staged_trial import TrialSetting

    short = Effort(warm_up=1, least_rounds=2, most_rounds=3, seconds=1)
    once = partial(TrialSetting, effort=short, steady_relaunches=1, notebook_relaunches=1)
    trial_start.TrialSetting = once  # type: ignore[attr-defined]  # faults are what is looked for, not speed

    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(SETUP, "<setup>", "exec"), namespace)
    clock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    clock.bind(f"\0accel-hostile-{os.getpid()}")
    clock.setblocking(False)
    cell = HOSTILE_CELL.format(line=HOSTILE_LINES.get(kind, "pass"), address=clock.getsockname())
    workbench = Workbench(namespace, spare_workers=1)
    workbench.profile(cell)
    ranks = DdpOptions(n=2, threads=1, run=RunOptions(timeout_s=TIMEOUT_S, discard=True))
    commands: dict[str, Callable[[], Any]] = {
        "try": lambda: workbench.try_("fused_optimizer", budget_s=12.0, timeout_s=TIMEOUT_S),
        "ddp": lambda: workbench.ranks.run(cell, ranks),
        "sweep": lambda: sweep_of(workbench, processes="2", threads="1", timeout_s=TIMEOUT_S),
    }
    rows = {name: outcome(command, namespace, clock) for name, command in commands.items()}
    workbench.profile(CELL)
    again = [
        outcome(lambda: workbench.try_("fused_optimizer", budget_s=12.0), namespace, clock),
        outcome(lambda: workbench.ranks.run(CELL, ranks), namespace, clock),
    ]
    workbench.close()
    torch.manual_seed(0)
    below = [each.name() for each in psutil.Process().children(recursive=True)]
    return {"rows": rows, "works_again": all(row["is_result"] for row in again),
            "again": [row["said"] for row in again], "below": below}  # fmt: skip


def outcome(command: Callable[[], Any], namespace: dict[str, Any], clock: socket.socket) -> dict[str, Any]:
    """Run a command: its result or error, the seconds since the first hostile line, and whether all is as it was."""
    from accel.errors import AccelError

    before, begun = fingerprint(namespace), time.monotonic()
    is_result, is_ours = False, False
    try:
        said = str(command())
        is_result = True
    except AccelError as error:
        said, is_ours = str(error), True
    except BaseException as error:  # a bare traceback is what this counts
        said = f"{type(error).__name__}: {error!s:.200}"
    hit = begun
    try:
        while True:
            hit = float(clock.recv(64))
    except BlockingIOError:
        pass
    after = fingerprint(namespace)
    for folder in (Path(__file__).parents[1], sys.prefix, sys.base_prefix):  # results must not name them
        said = said.replace(f"{folder}/", "")
    return {
        "is_result": is_result, "is_answered": is_result or is_ours, "said": said[:300], "length": len(said),
        "is_raw": any((ord(each) < 32 and each not in "\n\t") or each == "\u202e" for each in said),
        "seconds": round(time.monotonic() - hit, 2), "changed": [name for name in before if before[name] != after[name]],
    }  # fmt: skip


def fingerprint(namespace: dict[str, Any]) -> dict[str, Any]:
    """Everything of the user's that no trial may change."""
    import torch

    tensors = [*namespace["model"].state_dict().values()]
    tensors += [value for state in namespace["optimizer"].state.values() for value in state.values()]
    digest = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()
    files = {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}
    return {
        "model and optimizer": digest, "random": random.getstate(), "torch's random": bytes(torch.get_rng_state().tolist()),
        "environment": dict(os.environ), "folder": os.getcwd(), "files": files, "dtype": torch.get_default_dtype(),
    }  # fmt: skip


def one_kernel(kind: str, condition: str) -> dict[str, Any]:
    """A process of its own with a home, a project and a folder for temporary files of its own; its report, and what it left."""
    limit, mount = CONDITIONS[condition]
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as folder:
        places = {name: Path(folder, name) for name in ("home", "project", "tmp")}
        for path in places.values():
            path.mkdir()
        (places["project"] / "notes.txt").write_text("of the user")
        environment = {**os.environ, "HOME": str(places["home"]), "TMPDIR": str(places["tmp"]), "PYTHONPATH": os.getcwd(),
                       "ACCEL_HISTORY": str(places["home"] / "history.sqlite")}  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.hostile", "--kernel", kind]
        if mount:
            command = ["unshare", "-Urm", "sh", "-c", f'{mount} && exec "$@"', "sh", *command]
        shared, begun = shared_memory(), time.monotonic()
        running = subprocess.Popen(
            command, cwd=places["project"], env=environment, preexec_fn=limit, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        )  # fmt: skip
        try:
            printed, errors = running.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            printed, errors = running.communicate()
        time.sleep(0.5)
        lines = [line for line in printed.splitlines() if line.startswith('{"rows"')]
        kernel_report = (
            json.loads(lines[-1]) if lines else {"rows": {}, "works_again": False, "again": [errors[-400:]]}
        )
        kernel_report |= {
            "kind": kind, "condition": condition, "survived": bool(lines), "wall_s": round(time.monotonic() - begun, 1),
            "left": {"processes": len(of_folder(folder)), "files": len(leftovers(places["tmp"])),
                     "shared_memory": len(shared_memory() - shared)},
            "left_names": [*of_folder(folder), *leftovers(places["tmp"])][:10],
        }  # fmt: skip
        for pid in of_folder(folder):
            os.kill(pid, signal.SIGKILL)
    return kernel_report


def of_folder(folder: str) -> list[int]:
    """Processes that were started with a home below this folder, whatever they have become."""
    found = []
    for each in psutil.process_iter():
        try:
            is_ours = Path(f"/proc/{each.pid}/environ").read_bytes().find(f"TMPDIR={folder}/".encode()) >= 0
            if is_ours and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
        except (OSError, psutil.NoSuchProcess):
            continue
    return found


def shared_memory() -> set[str]:
    """Names in /dev/shm, without what torch named after a process that lives: others work on this machine too."""
    named = {name: name.split("_") for name in os.listdir("/dev/shm")}
    return {
        name for name, parts in named.items() if parts[0] != "torch" or not psutil.pid_exists(int(parts[1]))
    }


def leftovers(folder: Path) -> list[str]:
    """Temporary files, torch's compiler cache excepted: that is torch's own, and for the next process."""
    return [name for name in os.listdir(folder) if not name.startswith("torchinductor")]


def figures_of(kernels: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts over all kernels."""
    rows = [row for each in kernels for row in each["rows"].values()]
    seconds = [row["seconds"] for row in rows] or [0.0]
    kinds = ("processes", "files", "shared_memory")
    return {
        "kernels": len(kernels), "runs": len(rows), "survived": sum(each["survived"] for each in kernels),
        "works_again": sum(each["works_again"] for each in kernels),
        "answered": sum(row["is_answered"] for row in rows), "state_equal": sum(not row["changed"] for row in rows),
        "long_or_raw_messages": sum(row["is_raw"] or row["length"] > 20_000 for row in rows),
        "seconds_p50": median(seconds), "seconds_max": max(seconds),
        **{f"left_{kind}": sum(each["left"][kind] for each in kernels) for kind in kinds},
    }  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--quick", action="store_true", help="one kind, and nothing is written")
    arguments.add_argument(
        "--only",
        metavar="KIND",
        nargs="*",
        help="these kinds or conditions alone; those of others stay in the file",
    )
    arguments.add_argument("--kernel", metavar="KIND", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.kernel is not None:
        answer = json.dumps(kernel(options.kernel), default=str)
        print(f"\n{answer}", flush=True)
        return
    everything = [(kind, "as usual") for kind in HOSTILE_LINES] + [("none", name) for name in CONDITIONS]
    pairs = everything
    if options.quick:
        pairs = [(kind, "as usual") for kind in QUICK]
    elif options.only:
        pairs = [pair for pair in everything if {*pair} & {*options.only}]
    kernels = []
    for kind, condition in pairs:
        kernel_report = one_kernel(kind, condition)
        kernels.append(kernel_report)
        words = [f"{name}: {row['said'].splitlines()[0]:.70}" + (f" CHANGED {row['changed']}" if row["changed"] else "")
                 for name, row in kernel_report["rows"].items() if row["said"]]  # fmt: skip
        print(
            f"{kind} / {condition}: survived {kernel_report['survived']}, again {kernel_report['works_again']}, "
            f"left {kernel_report['left']}"
        )
        print(*(f"    {word}" for word in words or kernel_report["again"]), sep="\n", flush=True)
    if options.only:
        kernels = in_order(everything, stored("hostile").get("kernels_by_kind", []), kernels)
    by_kind = [] if options.quick else kernels
    report("hostile", figures_of(kernels), is_full_run=not options.quick, kernels_by_kind=by_kind)


def in_order(pairs: list[tuple[str, str]], *runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The latest kernel of each kind and condition."""
    known = {(each["kind"], each["condition"]): each for run in runs for each in run}
    return [known[pair] for pair in pairs if pair in known]


if __name__ == "__main__":
    main()

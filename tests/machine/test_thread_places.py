"""Which threads and processes are there, what they are for and how busy, read from the real /proc."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import pytest

import accel
from accel.cli import main
from accel.errors import AccelError
from accel.machine.affinity import AffinityLooks
from accel.machine.affinity.processes_here import processes_here, rank_in
from accel.machine.affinity.thread_names import ThreadNames
from accel.machine.affinity.thread_places import ThreadLooks, read_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are read from /proc")

NAMED = """
import os, threading, torch
from accel.machine.affinity.thread_places import ThreadLooks
torch.set_num_threads(3)
looks = ThreadLooks()
@torch.jit.script
def forked(a: torch.Tensor):
    return torch.jit.wait(torch.jit.fork(torch.neg, a))
large = torch.randn(400, 400)
large @ large
forked(large)
seen = {}
while sum(what == "OpenMP thread" for what in seen.values()) < 2:
    places = looks.look([(os.getpid(), "me")])
    seen = {each.thread: each.what for each in places}
    threading.Event().wait(0.01)
print(sorted(seen.values()))
"""


def test_threads_of_openmp_and_of_the_inter_op_pool_are_told_apart(tmp_path) -> None:
    script = tmp_path / "named.py"  # TorchScript reads its source
    script.write_text(NAMED)
    run = subprocess.run([sys.executable, "-W", "ignore", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    names = eval(run.stdout)
    assert names.count("main thread") == 1
    assert names.count("OpenMP thread") == 2
    assert "inter-op thread" in names


def test_a_thread_that_computed_since_the_last_look_is_busy_and_one_that_waits_is_not() -> None:
    go, stop, computed = threading.Event(), threading.Event(), threading.Event()

    def compute() -> None:
        go.wait()
        while not stop.is_set():
            hashlib.sha256(b"0" * 2_000_000)
            computed.set()

    worker = threading.Thread(target=compute, name="<worker>")
    worker.start()
    clock = iter([0.0, 1e-3])
    looks = ThreadLooks(clock=lambda: next(clock))
    own = [(os.getpid(), "this notebook")]
    first = {each.thread: each for each in looks.look(own)}
    assert first[worker.native_id].busy is None
    go.set()
    for _ in range(20):  # some ticks of the kernel's clock
        computed.clear()
        computed.wait()
    second = {each.thread: each for each in looks.look(own)}
    stop.set()
    worker.join()
    assert second[worker.native_id].what == "Python's <worker>"
    assert second[worker.native_id].busy == 1.0  # more than the millisecond that the clock told
    assert second[worker.native_id].is_busy


def test_a_child_with_a_rank_in_its_environment_is_that_rank_and_the_caller_can_name_one(monkeypatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    waiting = [sys.executable, "-c", "print(flush=True); input()"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    known = subprocess.Popen(waiting, env={**os.environ, "RANK": "3"}, **pipes)
    named = subprocess.Popen(waiting, **pipes)
    stranger = subprocess.Popen(waiting, **pipes)
    try:
        for process in (known, named, stranger):
            process.stdout.readline()
        found = {each.pid: each for each in processes_here({7: named.pid})}
        assert (found[known.pid].name, found[known.pid].short) == ("rank 3", "R3")
        assert (found[named.pid].name, found[named.pid].kind) == ("rank 7", "rank")
        assert stranger.pid not in found
        assert found[os.getpid()].kind == "notebook"
    finally:
        for process in (known, named, stranger):
            process.communicate(b"\n")
    assert read_threads([found[known.pid]]) == ()  # it has ended


def test_what_a_rank_starts_is_no_second_rank_and_children_of_a_rank_are_not_ranks_by_inheritance(
    monkeypatch,
) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(flush=True); input()'])"
    rank = subprocess.Popen(
        [sys.executable, "-c", child],
        env={**os.environ, "RANK": "5"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        rank.stdout.readline()
        monkeypatch.delenv("RANK", raising=False)
        assert [each.name for each in processes_here() if each.kind == "rank"] == ["rank 5"]
        monkeypatch.setenv("RANK", "5")  # this process is the rank: its children are its helpers
        assert [each.name for each in processes_here() if each.kind == "rank"] == []
    finally:
        rank.communicate(b"\n")


BESIDE = """
import os, subprocess, sys
code = "import sys; from accel.machine.affinity.processes_here import processes_here; print('ready', flush=True); " \\
    "sys.stdin.readline(); print([each.name for each in processes_here()], flush=True); sys.stdin.readline()"
ranks = [
    subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "RANK": rank}, stdin=-1, stdout=-1, text=True)
    for rank in "01"
]
for rank in ranks:
    rank.stdout.readline()
for rank in ranks:
    rank.stdin.write("look\\n")
    rank.stdin.flush()
    print(rank.stdout.readline(), end="")
for rank in ranks:
    rank.communicate("end\\n")
"""


def test_ranks_that_were_started_beside_this_one_are_shown() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    told = subprocess.run(
        [sys.executable, "-c", BESIDE], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["['this process', 'rank 1']", "['this process', 'rank 0']"]


def test_another_process_is_shown_with_its_ranks_and_variables() -> None:
    code = (
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'print(flush=True); input()'], env={**os.environ, 'RANK': '4'})"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**{n: v for n, v in os.environ.items() if n != "RANK"}, "OMP_PROC_BIND": "close"},
    )  # fmt: skip
    try:
        other.stdout.readline()
        found = accel.affinity(pid=other.pid)
        assert [each.name for each in found.processes] == [f"process {other.pid}", "rank 4"]
        assert found.environment == (("OMP_PROC_BIND", "close"),)
        assert found.torch_threads is None  # what this process has is not what that one has
        named = accel.affinity(ranks={9: other.pid})
        assert f"rank 9 {other.pid}" in [f"{each.name} {each.pid}" for each in named.processes]
        assert main(["affinity", "--pid", str(other.pid)]) == 0
    finally:
        other.communicate(b"\n")
    with pytest.raises(AccelError, match="no such process"):
        accel.affinity(pid=other.pid)


def test_loader_workers_are_numbered_and_on_the_map() -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    iterator = iter(DataLoader(TensorDataset(torch.zeros(8, 1)), num_workers=2))
    for _ in range(2):
        next(iterator)  # one of each worker: it has its name by then
    pids = [worker.pid for worker in iterator._workers]
    found = {each.pid: each for each in AffinityLooks().look().processes}
    del iterator
    first, second = (found[pid] for pid in pids)
    number = int(first.short.removeprefix("L"))  # 1, where no other test has left a loader running
    assert (first.name, second.name) == (f"loader worker {number}", f"loader worker {number + 1}")
    assert (first.kind, second.short) == ("loader worker", f"L{number + 1}")


@pytest.mark.parametrize(
    ("environment", "rank"),
    [("RANK=2\0A=b", 2), ("SLURM_PROCID=1\0", 1), ("RANK=x", None), ("", None), ("PATH=/RANK=1", None)],
)
def test_a_rank_is_read_from_an_environment(environment, rank) -> None:
    assert rank_in(environment) == rank


def test_a_thread_that_cannot_be_told_says_so_and_names_that_torch_gives_are_put_into_words(tmp_path) -> None:
    names = ThreadNames(tmp_path)
    assert names.of(os.getpid(), 1, "python") == "compute thread"
    assert names.of(os.getpid() + 1, 1, "python") == "unnamed thread"
    assert names.of(1, 2, "pt_autograd_0") == "autograd thread"


def test_a_name_that_a_terminal_would_obey_is_shown_without_that() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="loader\x1b[2J\nrank 0")
    thread.start()
    try:
        assert ThreadNames().of(os.getpid(), thread.native_id, "python") == "Python's loader·[2J·rank 0"
    finally:
        over.set()
        thread.join()


def test_the_number_of_a_thread_that_ended_may_be_another_threads(tmp_path) -> None:
    folder = tmp_path / "7" / "task" / "8"
    folder.mkdir(parents=True)
    (tmp_path / "7" / "maps").write_text(
        "1000-2000 r-xp 0 0:0 0 /lib/libgomp.so.1\n3000-4000 r-xp 0 0:0 0 /lib/libopenblas.so.0\n"
    )
    names = ThreadNames(tmp_path)

    def look(waits_at):
        (folder / "syscall").write_text(f"202 0x0 0x0 0x0 0x0 0x0 0x0 0x0 {waits_at}\n")
        names.begin_look()
        return names.of(7, 8, "python")

    assert (look("0x1800"), look("0x3800")) == ("OpenMP thread", "OpenMP thread")
    names.begin_look()  # it was not there
    assert look("0x3800") == "OpenBLAS thread"

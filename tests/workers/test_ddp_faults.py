"""Whatever happens to a rank: one clear error, of the rank that caused it; nothing is left behind, and the next run works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from accel.distributed.ranks.rank_process import RankFolder
from accel.errors import AccelError, RankError
from accel.processes import kernel_folder
from tests.workers.ddp_leftovers import Leftovers

SETUP = """
import ctypes, os, signal, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,)))
loader = DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

def is_rank(number):
    return torch.distributed.get_rank() == number

def tell_when():
    with open(folder + "/when", "w") as file:
        file.write(repr(time.monotonic()))

def sleep_holding_everything(seconds):
    ctypes.PyDLL(None).sleep(seconds)
"""
CELL = """
for step, (x, y) in enumerate(loader):
    if step == 2 and ({who}):
        tell_when()
        {line}
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
PATIENT_S = 120.0  # the timeout of runs that must end well before
HANG_S = 8.0


@pytest.fixture(scope="module")
def pool():
    """Two warm ranks; what lies in the folder for temporary files is theirs or the notebook's."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="t") as folder:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        ranks = RankPool(2, threads=1)
        yield ranks
        ranks.close()
        theirs = ("torchinductor", "accel-kernel-")  # torch's own, and the kernel's until it ends
        assert [name for name in os.listdir(folder) if not name.startswith(theirs)] == []


@pytest.fixture
def namespace(tmp_path):
    """The notebook."""
    made = {"__name__": "__main__", "folder": str(tmp_path)}
    exec(compile(SETUP, "<setup>", "exec"), made)
    return made


@pytest.fixture
def clean(pool, namespace):
    """The test before has left a warm pool; this one has to leave nothing but that."""
    works(pool)
    leftovers = Leftovers(pool)
    yield leftovers
    works(pool)
    assert leftovers.found() == {}


def works(pool):
    """A run with collectives gives what it should."""

    import torch

    def sum_over_ranks(value):
        mine = torch.tensor([value + torch.distributed.get_rank()])
        torch.distributed.all_reduce(mine)
        return mine.item()

    assert pool.run(sum_over_ranks, 1) == [3, 3]


def cell_with(line, who="is_rank(1)"):
    """The training cell, with a line that one rank runs in its third step."""
    return CELL.format(who=who, line=line)


def failed(pool, namespace, source, *, timeout_s=PATIENT_S):
    """The error of a cell, and the seconds from its cause to it."""
    before = {name: value.clone() for name, value in namespace["model"].state_dict().items()}
    with pytest.raises(AccelError) as raised:
        CellRun(pool, source, namespace, RunOptions(timeout_s=timeout_s), filename="<cell>").go()
    now = time.monotonic()
    assert all(value.equal(before[name]) for name, value in namespace["model"].state_dict().items())
    when = Path(namespace["folder"], "when")
    return raised.value, now - float(when.read_text()) if when.exists() else float("nan")


def line_of(error):
    """The user's line that the traceback shows."""
    return [line.strip() for line in error.traceback_text.splitlines()]


@pytest.mark.parametrize("rank", [0, 1])
def test_the_rank_that_raised_is_named_with_the_users_line_and_all_stay_warm(
    pool, namespace, clean, rank, monkeypatch
):
    monkeypatch.setattr(
        "accel.distributed.ranks.rank_answers._GRACE_S", PATIENT_S
    )  # the other rank may be slow to answer
    before = pool.pids
    error, seconds = failed(pool, namespace, cell_with("raise ValueError('in a rank')", f"is_rank({rank})"))
    assert isinstance(error, RankError)
    assert error.rank == rank
    assert f"on rank {rank} of 2: it raised ValueError: in a rank" in str(error)
    assert "raise ValueError('in a rank')" in line_of(error)
    assert 'File "<cell>", line 5, in <module>' in line_of(error)
    assert "accel/distributed" not in error.traceback_text
    assert seconds < PATIENT_S / 4
    assert pool.pids == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL", id="SIGKILL"),
        pytest.param("ctypes.string_at(0)", "killed by SIGSEGV", id="SIGSEGV"),
        pytest.param("os._exit(3)", "exited with status 3", id="os._exit", marks=pytest.mark.whole),
    ],
)
def test_a_rank_that_dies_is_named_with_how_and_only_it_is_started_anew(pool, namespace, clean, line, said):
    error, seconds = failed(pool, namespace, cell_with(line))
    assert error.rank == 1
    assert said in str(error)
    assert ('File "<cell>", line 5 in <module>' in line_of(error)) == ("SIGSEGV" in said)
    assert seconds < PATIENT_S / 4


@pytest.mark.parametrize("line", ["torch.empty(1 << 50)", "bytearray(1 << 60)"], ids=["torch", "Python"])
def test_out_of_memory_in_a_rank_says_so_with_the_line(pool, namespace, clean, line):
    error, _ = failed(pool, namespace, cell_with(line))
    assert error.rank == 1
    assert "It ran out of memory" in str(error)
    assert line in line_of(error)


def test_when_memory_runs_out_the_system_takes_a_rank_before_the_notebook(pool, clean):
    def score():
        with open("/proc/self/oom_score_adj") as file:
            return int(file.read())

    assert pool.run(score) == [1000, 1000]


HOSTILE = """
class Hostile(Exception):
    def __init__(self, text=None):
        self.text = text
    def __str__(self):
        return self.text if self.text else undefined
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise Hostile", "it raised Hostile: (its text cannot be read: __str__ raised NameError)"),
        ("raise Hostile('x' * 50_000_000)", "it raised Hostile: xxx"),
        ("raise Hostile('\\ud800')", "it raised Hostile: \\ud800"),
    ],
    ids=["its text raises", "a text of 50 MB", "a text that is no text"],
)
def test_an_error_with_a_hostile_text_is_told_in_few_words(pool, namespace, clean, line, said, monkeypatch):
    monkeypatch.setattr("accel.distributed.ranks.rank_answers._GRACE_S", PATIENT_S)
    exec(compile(HOSTILE, "<hostile>", "exec"), namespace)
    before = pool.pids
    error, _ = failed(pool, namespace, cell_with(line))
    assert said in str(error)
    assert line in line_of(error)
    assert "accel/" not in error.traceback_text
    assert len(str(error)) < 50_000
    assert pool.pids == before


def test_a_run_that_fails_while_its_ranks_meet_leaves_them_fit_for_the_next(pool, namespace, clean):
    with pytest.raises(AccelError):  # the shortest time that is let through
        CellRun(
            pool, cell_with("pass", "False"), namespace, RunOptions(timeout_s=0.001), filename="<cell>"
        ).go()
    result = CellRun(pool, cell_with("pass", "False"), namespace, filename="<cell>").go()
    assert result.steps > 0


def test_a_rank_that_alone_failed_to_meet_the_others_meets_them_in_the_next_run(pool, namespace, clean):
    import torch

    def meets_alone():
        if torch.distributed.get_rank() == 0:
            torch.distributed.init_process_group("gloo")

    before = pool.pids[0]
    with pytest.raises(RankError):
        pool.run(meets_alone, timeout_s=HANG_S)
    works(pool)
    assert pool.pids[0] != before


def test_more_ranks_than_the_machine_can_hold_are_refused_at_once():
    for ranks in (10_000, 99999999999999999999):
        with pytest.raises(AccelError, match=r"the largest number|this machine has"):
            RankPool(ranks)


@pytest.mark.parametrize(
    "line",
    [
        "exit()",
        *(pytest.param(line, marks=pytest.mark.whole) for line in ("sys.exit(4)", "raise SystemExit")),
    ],
)
def test_exit_in_the_cell_is_named_as_that(pool, namespace, clean, line):
    error, seconds = failed(pool, namespace, cell_with(line))
    assert error.rank == 1
    assert "it called exit(" in str(error)
    assert line in line_of(error)
    assert seconds < PATIENT_S / 4


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("while True: pass", id="in Python", marks=pytest.mark.whole),
        pytest.param("time.sleep(1000)", id="in C", marks=pytest.mark.whole),
        pytest.param("sleep_holding_everything(1000)", id="in C with the interpreter's lock"),
    ],
)
def test_a_rank_that_hangs_is_named_within_its_timeout_with_where_all_stand(pool, namespace, clean, line):
    error, seconds = failed(pool, namespace, cell_with(line), timeout_s=HANG_S)
    assert error.rank == 1
    assert f"did not come on for {HANG_S:g} s, in step 3" in str(error)
    assert "rank 1 stands here:" in error.traceback_text
    assert 'File "<cell>", line 5 in <module>' in error.traceback_text.split("rank 1 stands here:")[1]
    assert HANG_S * 0.9 < seconds < HANG_S * 4 + 40


def test_where_all_ranks_hang_each_is_shown_where_it_stands(pool, namespace, clean):
    error, seconds = failed(pool, namespace, cell_with("time.sleep(1000)", "True"), timeout_s=HANG_S)
    assert "rank 0 stands here:" in error.traceback_text
    assert "rank 1 stands here:" in error.traceback_text
    assert error.traceback_text.count('File "<cell>", line 5 in <module>') == 2
    assert HANG_S * 0.9 < seconds < HANG_S * 4 + 40


def test_a_cell_that_hangs_before_it_trains_is_ended_too(pool, namespace, clean):
    error, _ = failed(pool, namespace, "while True: pass", timeout_s=HANG_S)
    assert 'File "<cell>", line 1 in <module>' in error.traceback_text


def test_a_rank_that_is_stopped_is_told_from_one_that_computes(pool, namespace, clean):
    error, _ = failed(pool, namespace, cell_with("os.kill(os.getpid(), signal.SIGSTOP)"), timeout_s=HANG_S)
    assert error.rank == 1
    assert "its process is stopped" in error.traceback_text


def test_an_error_while_the_notebooks_objects_are_unpacked_has_the_users_line(pool, namespace, clean):
    import linecache

    source = """
class Fragile:
    def __setstate__(self, state):
        raise LookupError("no such state")
fragile = Fragile()
fragile.state = 1
"""
    linecache.cache["<fragile>"] = (len(source), None, source.splitlines(True), "<fragile>")
    exec(compile(source, "<fragile>", "exec"), namespace)
    error, _ = failed(pool, namespace, "print(fragile)\n" + cell_with("pass"))
    del linecache.cache["<fragile>"]
    assert "it raised LookupError: no such state" in str(error)
    assert 'raise LookupError("no such state")' in line_of(error)


def test_an_error_in_a_loader_worker_is_that_of_its_rank_with_the_users_line(pool, namespace, clean):
    faulty = """
class Faulty(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        if i == 40:
            raise KeyError("no sample 40")
        return torch.zeros(8), 0
loader = DataLoader(Faulty(), batch_size=8, num_workers=2)
"""
    exec(compile(faulty, "<faulty>", "exec"), namespace)
    error, _ = failed(pool, namespace, cell_with("pass"))
    assert error.rank == 1  # its batches are the odd ones
    assert "KeyError" in error.because
    assert "\n" not in error.because
    assert 'File "<faulty>", line 7, in __getitem__' in error.traceback_text


def test_a_rank_that_dies_takes_its_loader_workers_along(pool, namespace, clean):
    namespace["loader"] = namespace["DataLoader"](
        namespace["data"], batch_size=8, num_workers=2, persistent_workers=True
    )
    error, _ = failed(pool, namespace, cell_with("os.kill(os.getpid(), signal.SIGKILL)"))
    assert error.rank == 1


def test_a_hundred_megabytes_of_output_hold_nothing_up_and_the_error_after_it_is_told(pool, namespace, clean):
    shown = []
    line = "exec('for _ in range(100): print(\"x\" * 2**20)'); raise ValueError('at last')"
    with pytest.raises(RankError, match="it raised ValueError: at last") as raised:
        CellRun(
            pool, cell_with(line), namespace, RunOptions(timeout_s=PATIENT_S), filename="<cell>",
            on_print=lambda rank, text: shown.append((rank, len(text))),
        ).go()  # fmt: skip
    assert raised.value.rank == 1
    assert sum(length for rank, length in shown if rank == 1) >= 100 * 2**20
    assert all(each.output.text.count("x") <= 2**20 for each in pool.processes)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (cell_with("torch.distributed.barrier()"), "and rank 1 reached a collective of torch.distributed"),
        (
            cell_with("pass") + "if is_rank(1):\n    torch.distributed.barrier()\n",
            "rank 1 reached a collective of torch.distributed, and rank 0 reached the end of the cell",
        ),
    ],
    ids=["in the loop", "after it"],
)
def test_a_collective_that_one_rank_alone_calls_stops_all_ranks_at_once(pool, namespace, clean, cell, reason):
    result = CellRun(pool, cell, namespace, RunOptions(timeout_s=PATIENT_S), filename="<cell>").go()
    assert result.was_stopped
    assert reason in result.notes[0]


def test_an_error_that_the_cell_makes_of_a_lost_connection_is_a_consequence(pool, namespace, clean):
    cell = """
try:
    for step, (x, y) in enumerate(loader):
        if is_rank(1) and step == 2:
            raise ValueError("the cause")
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
except RuntimeError as error:
    raise KeyError("what the victim makes of it") from error
"""
    error, _ = failed(pool, namespace, cell)
    assert error.rank == 1
    assert "the cause" in str(error)


def test_a_warm_rank_that_something_still_holds_is_replaced(pool, namespace, clean, monkeypatch):
    monkeypatch.setattr("accel.distributed.ranks.rank_process._WARM_TIMEOUT_S", 10.0)
    held, other = pool.pids[0], pool.pids[1]
    os.kill(held, signal.SIGSTOP)
    works(pool)
    assert pool.pids[0] != held
    assert pool.pids[1] == other


def test_output_that_the_cell_turned_elsewhere_is_back_in_the_next_run(pool, namespace, clean):
    CellRun(pool, "sys.stdout = open(os.devnull, 'w')\nprint('hidden')", namespace, filename="<cell>").go()
    shown = []
    CellRun(
        pool, "print('seen')", namespace, filename="<cell>", on_print=lambda *each: shown.append(each)
    ).go()
    assert sorted(rank for rank, text in shown if "seen" in text) == [0, 1]


def test_a_cell_that_leaves_a_thread_behind_has_its_result_and_new_ranks_afterwards(pool, namespace, clean):
    before = set(pool.pids.values())
    cell = (
        cell_with("pass", "False")
        + "import threading\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n"
    )
    result = CellRun(pool, cell, namespace, RunOptions(timeout_s=PATIENT_S), filename="<cell>").go()
    assert result.steps == 6
    assert [len(each.cpus) for each in result.ranks] == [1, 1]
    works(pool)
    assert not before & set(pool.pids.values())


def test_ctrl_c_ends_the_run_at_once_and_changes_nothing(pool, namespace, clean):
    before = namespace["model"][0].weight.clone()
    reached = []

    def interrupt(lanes):
        if min((lane.step for lane in lanes), default=0) >= 3 and not reached:
            reached.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

    cell = "for _ in range(100000):\n" + textwrap.indent(cell_with("pass", "False"), "    ")
    with pytest.raises(KeyboardInterrupt):
        CellRun(
            pool, cell, namespace, RunOptions(timeout_s=PATIENT_S), filename="<cell>", watch=interrupt
        ).go()
    assert time.monotonic() - reached[0] < PATIENT_S / 10
    assert pool.pids == {}
    assert namespace["model"][0].weight.equal(before)


def test_ctrl_c_while_ranks_start_leaves_none_half_started(pool, namespace, clean):
    pool.end_ranks()
    main = threading.main_thread().ident
    from accel.distributed.ranks.rank_process import RankProcess

    met = RankProcess.meet

    def interrupted(self, page, look):
        if self.rank == 1:
            signal.pthread_kill(main, signal.SIGINT)
        return met(self, page, look)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankProcess, "meet", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.warm_up()
    assert pool.pids == {}
    works(pool)


def test_two_runs_on_the_same_ranks_are_refused_in_words(pool, namespace, clean):
    with pool.taken():
        with pytest.raises(AccelError, match="busy with another"):
            works(pool)


KERNEL = """
import sys
sys.path[:0] = {path!r}
from accel.distributed.ranks.rank_pool import RankPool
pool = RankPool(2, threads=1)
pool.warm_up()
print(*pool.pids.values(), flush=True)
def endless():
    import time
    from torch.utils.data import DataLoader
    workers = iter(DataLoader(range(10**9), num_workers=1))
    print(next(workers))
    time.sleep(1000)
pool.run(endless)
"""


def test_when_the_kernel_is_killed_no_rank_survives_it_and_the_next_removes_its_files(tmp_path, monkeypatch):
    code = KERNEL.format(path=sys.path)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    kernel = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert kernel.stdout is not None
    with kernel, kernel.stdout:
        ranks = [psutil.Process(int(pid)) for pid in kernel.stdout.readline().split()]
        assert len(ranks) == 2
        workers = []
        while len(workers) < 2:  # until each rank has its loader worker
            workers = [child for rank in ranks for child in rank.children()]
        kernel.kill()
        kernel.wait()
        _, alive = psutil.wait_procs([*ranks, *workers], timeout=PATIENT_S)
    assert alive == []
    torchs_own = {name for name in os.listdir(tmp_path) if name.startswith("torchinductor")}  # its cache
    left = [tmp_path / name for name in os.listdir(tmp_path) if name not in torchs_own]
    assert {path.name.rpartition("-")[0] for path in left} <= {"accel-rank", "accel-kernel"}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(kernel_folder, "_SETTLED_S", 0.0)
    RankFolder.remove_abandoned()  # as the next pool does when its ranks start
    kernel_folder.remove_abandoned("trial", "kernel")  # as the next kernel does before its first process
    assert set(os.listdir(tmp_path)) == torchs_own

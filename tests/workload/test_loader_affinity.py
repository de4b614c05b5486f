"""Loader workers get a mask of their own where OpenMP narrowed that of the main thread; read back in the workers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import accel
from accel.errors import AccelError
from accel.machine.cpu_lists import cpu_list
from accel.workload.loader_affinity import WorkerOn, _started

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there are no affinity masks here"),
]
BOUND = {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}

MASKS = """
import os, accel, torch
from torch.utils.data import DataLoader, Dataset
class Masks(Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return len(os.sched_getaffinity(0))
if __name__ == "__main__":
    torch.ones(300, 300) @ torch.ones(300, 300)
    loader = DataLoader(Masks(), num_workers=1, multiprocessing_context={start_method!r})
    main = len(os.sched_getaffinity(0))
    before = [int(size) for size in loader]
    with accel.loader_affinity() as cpus:
        inside = [int(size) for size in loader]
    after = [int(size) for size in loader]
    print((main, before, inside, after, len(cpus), len(os.sched_getaffinity(0))))
"""


class Masks(Dataset):
    """Each sample is the mask of the process that made it, as a bit pattern."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return sum(1 << cpu for cpu in os.sched_getaffinity(0))


def run(tmp_path, code: str, environment: dict[str, str]) -> tuple:
    (tmp_path / "masks.py").write_text(code)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "masks.py")],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_under_proc_bind_workers_have_one_cpu_and_inside_all_that_the_process_began_with(
    tmp_path, start_method
) -> None:
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        pytest.skip("two CPUs are needed")
    main, before, inside, after, given, main_after = run(
        tmp_path, MASKS.format(start_method=start_method), BOUND
    )
    assert main == main_after == 1
    assert before == after == [1] * 4
    assert given == cores
    assert inside == [cores] * 4


def test_workers_run_where_they_are_told_and_the_users_own_function_has_the_last_word() -> None:
    first = min(os.sched_getaffinity(0))
    called = torch.zeros(2).share_memory_()

    def users(worker: int) -> None:
        called[worker] += 1
        if worker == 1:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    loader = DataLoader(Masks(), num_workers=2, worker_init_fn=users)
    state, method = dict(vars(loader)), vars(DataLoader)["_get_iterator"]
    with accel.loader_affinity([first]) as given:
        assert {int(mask) for mask in loader} == {1 << first}
    assert given == (first,)
    assert called.tolist() == [1.0, 1.0]
    assert {key: value for key, value in vars(loader).items() if key in state} == state
    assert vars(DataLoader)["_get_iterator"] is method


def test_without_a_variable_that_binds_the_mask_is_the_process_own() -> None:
    with accel.loader_affinity() as given:
        assert set(given) == os.sched_getaffinity(0)
        assert len(list(DataLoader(Masks()))) == 4  # without workers nothing changes


@pytest.mark.parametrize("cpus", [[], [100_000]])
def test_cpus_that_a_worker_cannot_have_are_refused_at_once(cpus) -> None:
    method = vars(DataLoader)["_get_iterator"]
    with pytest.raises(AccelError, match="loader_affinity"), accel.loader_affinity(cpus):
        pass
    assert vars(DataLoader)["_get_iterator"] is method


def test_a_loader_that_six_threads_iterate_at_once_keeps_the_users_function() -> None:
    first = min(os.sched_getaffinity(0))
    loader = DataLoader(Masks(), num_workers=1, worker_init_fn=print)
    original = vars(DataLoader)["_get_iterator"]
    entering, starting = threading.Barrier(6), threading.Barrier(6)
    found = []

    def met(given) -> WorkerOn:
        starting.wait(120)
        return given.worker_init_fn

    def iterate() -> None:
        with accel.loader_affinity([first]):
            entering.wait(120)
            found.append(_started(loader, met))

    threads = [threading.Thread(target=iterate) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [WorkerOn((first,), print)] * 6
    assert loader.worker_init_fn is print
    assert vars(DataLoader)["_get_iterator"] is original


def test_left_out_of_order_the_last_one_puts_the_method_back() -> None:
    original = vars(DataLoader)["_get_iterator"]
    first, second = accel.loader_affinity(), accel.loader_affinity()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert vars(DataLoader)["_get_iterator"] is not original
    second.__exit__(None, None, None)
    assert vars(DataLoader)["_get_iterator"] is original


def test_a_thread_that_ends_while_the_mask_is_set_does_not_end_the_worker(monkeypatch) -> None:
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    monkeypatch.setattr(os, "listdir", lambda path: [str(ended.native_id), str(threading.get_native_id())])
    mask, called = os.sched_getaffinity(0), []
    WorkerOn(tuple(mask), called.append)(3)
    assert called == [3]


WORKER = """
import os, sys, torch
from accel.processes.spawner import spawn
from accel.processes.start import Start
torch.ones(300, 300) @ torch.ones(300, 300)
start = Start(python=sys.argv[0].replace("masks.py", "interpreter"))
process, end = spawn(start, module="accel.workers.worker_main", words=())
told = process.stdout.read().decode().split()[1]
process.wait()
print((len(os.sched_getaffinity(0)), told))
"""


def test_a_trial_worker_begins_with_the_mask_that_the_notebook_began_with(tmp_path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two CPUs are needed")
    interpreter = (
        tmp_path / "interpreter"
    )  # stands in for Python: it tells its mask before any OpenMP can narrow it
    interpreter.write_text("#!/bin/sh\nexec grep Cpus_allowed_list /proc/self/status\n")
    interpreter.chmod(0o755)
    own = cpu_list(sorted(os.sched_getaffinity(0)))
    assert run(tmp_path, WORKER, BOUND) == (1, own)
    assert run(tmp_path, WORKER, {"OMP_PROC_BIND": "", "OMP_PLACES": ""}) == (
        len(os.sched_getaffinity(0)),
        own,
    )

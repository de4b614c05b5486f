"""Whatever happens to a worker, the notebook gets a clear error, nothing is left behind, and the next trial works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import uuid

import psutil
import pytest

from accel.errors import AccelError, NotShippable, WorkerError
from accel.processes.child import AS_THE_KERNEL
from accel.processes.process_tree import MarkedProcess, end_tree
from accel.workers.pool import WorkerPool
from accel.workers.worker import Worker
from tests.workers.conftest import CELL, SETUP, worker_processes


def cell_with(line):
    """The tiny cell, with a line that runs only in a worker, at its third step."""
    return f"for step in range(30):\n    if os.getpid() != home and step == 2:\n        {line}\n    train()\n"


def tried(workbench, cell, **options):
    workbench.profile(cell)
    with pytest.raises(AccelError) as raised:
        workbench.try_("fused_optimizer", **options)
    assert worker_processes() == []
    return raised.value


def works_again(workbench):
    workbench.profile(CELL)
    return workbench.try_("fused_optimizer").rows[0].state == "done"


def test_an_exception_comes_back_with_the_users_own_lines(workbench):
    error = tried(workbench, cell_with("raise ZeroDivisionError('in the worker')"))
    assert isinstance(error, WorkerError)
    assert "raised ZeroDivisionError: in the worker" in str(error)
    assert "raise ZeroDivisionError('in the worker')" in error.traceback_text
    assert ", line 3, in <module>" in error.traceback_text
    assert "accel/workers" not in error.traceback_text


def test_a_worker_collects_the_garbage_of_the_cell_and_does_not_look_through_what_imports_made(workbench):
    cell = cell_with("import gc; raise ValueError(f'{gc.isenabled()}, {gc.get_freeze_count() > 10_000}')")
    assert "raised ValueError: True, True" in str(tried(workbench, cell))


def test_a_worker_killed_by_the_system_is_reported_with_its_signal(workbench):
    error = tried(workbench, cell_with("os.kill(os.getpid(), 9)"))
    assert "killed by SIGKILL" in str(error)
    assert "memory" in str(error)
    assert works_again(workbench)


def test_a_worker_that_exits_by_itself_is_told_so_and_nothing_of_memory(workbench):
    error = tried(workbench, cell_with("os._exit(7)"))
    assert "exited with status 7, as os._exit(7) in the cell does" in str(error)
    assert "memory" not in str(error)


def test_a_cell_that_closes_the_connection_is_told_what_does_so(workbench):
    error = tried(workbench, cell_with("os.closerange(3, 4096)"))
    assert "exited with status 0, as os._exit(0) or closing descriptors that it did not open" in str(error)


def test_what_a_cell_started_apart_ends_also_when_the_cell_ends_its_own_process(workbench):
    seconds = f"600.{uuid.uuid4().int % 10**9}"  # no other process sleeps so long
    workbench.namespace["subprocess"] = subprocess
    line = f"subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)"
    error = tried(workbench, cell_with(f"{line}; os._exit(7)"))
    assert "exited with status 7" in str(error)
    assert not [each for each in psutil.process_iter(["cmdline"]) if seconds in (each.info["cmdline"] or [])]


HOSTILE = """
class Hostile(Exception):
    def __str__(self):
        return text if text else undefined
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "cannot be read: __str__ raised NameError"), ("x" * 50_000_000, "it raised Hostile: xxx")],
    ids=["its text raises", "a text of 50 MB"],
)
def test_an_error_with_a_hostile_text_is_told_in_few_words_in_the_row_of_the_plan_too(workbench, text, said):
    exec(compile(HOSTILE, "<hostile>", "exec"), workbench.namespace)
    workbench.namespace["text"] = text
    workbench.profile(cell_with("raise Hostile"))
    trial = workbench.try_("fused_optimizer", wait=False)
    with pytest.raises(WorkerError) as raised:
        trial.wait()
    assert said in str(raised.value)
    assert len(str(raised.value)) < 50_000
    assert "accel/workers" not in raised.value.traceback_text
    assert said in trial.ladder.rows[0].sentence


def test_a_worker_that_closes_its_connection_and_lives_on_is_told_to_close_no_descriptor(workbench):
    error = tried(workbench, cell_with("os.closerange(3, 200); time.sleep(600)"))
    assert "Running your cell in the 'baseline' worker: it closed its connection." in str(error)
    assert "Remove the line that closes descriptors" in str(error)


def test_a_segmentation_fault_costs_the_worker_only(workbench):
    error = tried(workbench, cell_with("__import__('ctypes').string_at(0)"))
    assert "SIGSEGV" in str(error)


def test_a_stuck_worker_is_ended_and_shown_where_it_stands(workbench):
    error = tried(workbench, cell_with("time.sleep(1000)"), timeout_s=10)
    waited_s = int(re.search(r"gave no answer within (\d+) s", str(error))[1])
    assert 10 <= waited_s < 120  # what the block's other steps took is added
    assert "line 3 in <module>" in error.traceback_text


def test_a_worker_stuck_in_its_very_first_step_is_ended_as_soon(workbench):
    error = tried(workbench, "if os.getpid() != home:\n    time.sleep(1000)\ntrain()", timeout_s=2)
    assert "gave no answer within 2 s" in str(error)


def test_a_plan_whose_worker_fails_leaves_the_others_their_results(workbench):
    cell = """
for x, y in loader:
    if not model[0].weight.is_contiguous() and os.getpid() != home:
        raise RuntimeError("view size is not compatible")
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
    two_channels = """
model[0] = nn.Conv2d(2, 8, 3)
optimizer = torch.optim.Adam(model.parameters())
data.tensors = (data.tensors[0].expand(-1, 2, 8, 8).contiguous(), data.tensors[1])
"""
    exec(two_channels, workbench.namespace)
    workbench.profile(cell)
    ladder = workbench.try_("channels_last", "fused_optimizer")
    assert ladder["channels_last"].state == "failed"
    assert "view size is not compatible" in ladder["channels_last"].sentence
    assert ladder["fused_optimizer"].state == "done"


def test_a_bare_except_in_the_loop_does_not_keep_the_trial_from_ending(workbench):
    workbench.profile("for i in range(4):\n    try:\n        train()\n    except:\n        continue")
    assert workbench.try_("channels_last").rows[0].state == "done"


def test_every_fold_of_a_cross_validation_is_stepped(workbench):
    cell = """
for fold in range(3):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    opt = torch.optim.Adam(net.parameters())
    for x, y in loader:
        opt.zero_grad()
        criterion(net(x), y).backward()
        opt.step()
    del net, opt
"""
    workbench.profile(cell)
    row = workbench.try_("fused_optimizer").rows[0]
    assert row.state == "done"


def test_what_the_cell_writes_in_a_trial_does_not_reach_the_users_files(workbench, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv(
        "TMPDIR", str(tmp_path / "temporary")
    )  # what lies there is nobody's; the rest is the user's
    workbench.namespace["folder"] = str(tmp_path)
    cell = """
torch.save(model.state_dict(), folder + "/best.pt")
with open(folder + "/log.txt", "a") as log:
    log.write("an epoch\\n")
assert "an epoch" in open(folder + "/log.txt").read()
train()
"""
    workbench.profile(cell)
    best = (tmp_path / "best.pt").read_bytes()
    assert workbench.try_("fused_optimizer").rows[0].state == "done"
    assert (tmp_path / "log.txt").read_text() == "an epoch\n"
    assert (tmp_path / "best.pt").read_bytes() == best


def test_removing_a_file_of_the_users_in_a_trial_is_refused_by_name(workbench, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    workbench.namespace["mine"] = str(mine)
    error = tried(workbench, "train()\nif os.getpid() != home:\n    os.remove(mine)")
    assert "mine.txt" in str(error)
    assert mine.read_text() == "precious"


def test_out_of_memory_says_so(workbench):
    error = tried(workbench, cell_with("torch.empty(1 << 50)"))
    assert "ran out of memory" in str(error)
    assert "torch.empty(1 << 50)" in error.traceback_text


def test_exit_in_the_cell_is_an_error_not_an_end(workbench):
    assert "SystemExit" in str(tried(workbench, cell_with("raise SystemExit(3)")))
    assert "exited with status 5" in str(tried(workbench, cell_with("os._exit(5)")))


def test_a_data_set_that_cannot_be_pickled_is_named(workbench):
    exec(
        "class Locked(TensorDataset):\n    pass\ndata = Locked(*data.tensors)",
        workbench.namespace,
    )
    exec("data.lock = (i for i in range(3))\nloader = DataLoader(data, batch_size=16)", workbench.namespace)
    error = tried(workbench, CELL)
    assert isinstance(error, NotShippable)
    assert "'loader'" in str(error) or "'data'" in str(error)
    assert "generator" in str(error)


def test_a_cell_that_makes_no_step_in_the_worker_says_so(workbench):
    error = tried(workbench, "if os.getpid() == home:\n    train()")
    assert "without a single training step" in str(error)


def test_much_output_does_not_block_the_worker(workbench):
    workbench.profile("print('x' * 1_000_000 if os.getpid() != home else '')\ntrain()")
    assert workbench.try_("fused_optimizer").rows[0].state == "done"


def test_no_worker_outlives_a_kernel_that_was_killed(tmp_path):
    script = tmp_path / "kernel.py"
    body = f"""
    from accel.workbench import Workbench
    namespace = {{"__name__": "__main__"}}
    exec({SETUP!r}, namespace)
    bench = Workbench(namespace, spare_workers=0)
    bench.profile("train()")
    trial = bench.try_("fused_optimizer", wait=False)
    def tell():
        if trial.ladder.rows[0].details["rounds_now"]:
            print("measuring", flush=True)
    trial.on_change(tell)
    trial.wait()
    """
    script.write_text(textwrap.dedent(body))
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as kernel:
        try:
            while "measuring" not in kernel.stdout.readline():
                assert kernel.poll() is None, "the script ended before it measured"
            while not (workers := psutil.Process(kernel.pid).children(recursive=True)):
                assert kernel.poll() is None, "the script ended between two relaunches"
        finally:
            kernel.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]


def test_a_spare_worker_that_died_is_let_go_of_whole(monkeypatch):
    pool = WorkerPool(spares=1)
    pool.refill()
    try:
        [worker] = pool._warm
        psutil.Process(worker.pid).kill()
        worker._process.wait()
        pool.refill()
        assert pool._warm != [worker]
        assert not os.path.exists(worker.folder.path)
    finally:
        pool.close()


def test_a_worker_that_does_not_start_blames_no_cell(monkeypatch):
    monkeypatch.setenv("ACCEL_PRIVATE_DISK", "overlay")
    worker = Worker()
    with pytest.raises(WorkerError) as raised:
        worker.wait_until_ready()
    assert "before your cell ran" in str(raised.value)
    assert "value of ACCEL_PRIVATE_DISK" in str(raised.value)


def test_a_child_of_another_user_is_left_and_all_else_ends(monkeypatch):
    own = psutil.Process.kill

    def refused(process):
        if "sleep" in process.name():
            raise psutil.AccessDenied(process.pid)
        own(process)

    code = "import subprocess, time; subprocess.Popen(['sleep', '1000']); print('up', flush=True); time.sleep(1000)"
    process = MarkedProcess(
        [sys.executable, "-c", code], env=os.environ, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout.readline() == b"up\n"
    [child] = psutil.Process(process.pid).children()
    monkeypatch.setattr(psutil.Process, "kill", refused)
    end_tree(process)
    process.stdout.close()
    assert process.returncode == -9
    monkeypatch.undo()
    if child.is_running():
        child.kill()


def test_where_one_worker_cannot_be_started_those_before_it_are_ended(monkeypatch):
    started = []

    def start(as_the_kernel):
        if started:
            raise AccelError("Starting a process", because="the system refuses", do="Try again.")
        started.append(Worker())
        return started[0]

    monkeypatch.setattr("accel.workers.pool.Worker", start)
    with pytest.raises(AccelError, match="the system refuses"):
        WorkerPool(spares=0).take([AS_THE_KERNEL] * 2)
    assert not started[0].is_alive

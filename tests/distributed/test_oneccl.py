"""oneCCL between ranks: why it cannot be used, what is left of it, and, where it is built, that it does what gloo does."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.oneccl import built
from accel.distributed.oneccl.building import build
from accel.distributed.oneccl.leftovers import remove_of
from accel.distributed.oneccl.state import oneccl_here
from accel.distributed.ranks.rank_devices import rank_devices
from accel.distributed.ranks.rank_pool import RankPool, run_function
from accel.distributed.ranks.rank_process import RankFolder
from accel.errors import AccelError, RankError
from tests.distributed.cells import TRAIN, difference, notebook
from tests.distributed.test_rank_devices import machine_with

HANG_S = 15.0
is_built = pytest.mark.skipif(
    bool(built.why_not_usable()), reason=f"{built.why_not_usable()}; {built.BUILD_COMMAND} builds it"
)
on_linux = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no /dev/shm here")


@pytest.fixture(scope="module")
def pool() -> Iterator[RankPool]:
    """Two ranks with one thread each."""
    ranks = RankPool(2, threads=1)
    yield ranks
    pids = set(ranks.pids.values())
    ranks.close()
    if Path("/dev/shm").is_dir():
        assert [name for name in shared_memory() if int(name.split(":")[0]) in pids] == []


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user's cache in which nothing was built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def shared_memory() -> list[str]:
    """oneCCL's names in /dev/shm."""
    return [name for name in os.listdir("/dev/shm") if re.fullmatch(r"\d+:\d+:\d+", name)]


def trained(
    pool: RankPool, cell: str, backend: str, timeout_s: float = 20.0, **more: Any
) -> tuple[dict[str, Any], Any]:
    """What a cell on the ranks makes of a notebook's variables, and the result."""
    namespace = notebook(
        "import os, signal, time\ndef is_rank(number): return torch.distributed.get_rank() == number"
    )
    options = RunOptions(batch="global", timeout_s=timeout_s, **more)
    return namespace, CellRun(pool, cell, namespace, options, filename="<cell>", backend=backend).go()


# --- without a build -------------------------------------------------------------------------------------------------


def test_a_build_belongs_to_one_python_torch_and_source(monkeypatch, no_build) -> None:
    import torch

    folders = [built.build_folder()]
    monkeypatch.setattr(torch, "__version__", "9.9")
    folders.append(built.build_folder())
    monkeypatch.setattr(sys, "version", "9.9")
    folders.append(built.build_folder())
    monkeypatch.setattr(built, "PACKAGES", ("oneccl-devel==1",))
    folders.append(built.build_folder())
    assert len(set(folders)) == 4
    assert {folder.parent for folder in folders} == {no_build / "accel"}


def test_ccl_is_taken_by_name_alone_and_refused_with_the_command_that_builds_it(no_build) -> None:
    assert rank_devices(2, cuda=machine_with(0)).backend == "gloo"
    with pytest.raises(AccelError, match=r"--backend ccl: oneCCL is not built here for torch") as refused:
        rank_devices(2, backend="ccl", cuda=machine_with(0))
    if not any(built.why_not_buildable()):
        assert built.BUILD_COMMAND in refused.value.do
    assert "--backend gloo" in refused.value.do


def test_ccl_is_for_cpus() -> None:
    with pytest.raises(AccelError, match=r"--backend ccl --gpus 0,1: oneCCL is for ranks on CPUs"):
        rank_devices(2, backend="ccl", gpus="0,1", cuda=machine_with(2))


def test_without_a_compiler_it_is_said_what_to_install(monkeypatch, no_build) -> None:
    monkeypatch.setattr(built, "_why_not_this_machine", lambda: "")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "there is no C++ compiler. On Debian and Ubuntu: apt-get install g++" in str(oneccl_here())
    with pytest.raises(AccelError, match=r"Building oneCCL: there is no C\+\+ compiler"):
        build()


def test_another_processor_is_told_and_nothing_is_built(monkeypatch, no_build) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "Linux on x86-64" in oneccl_here().why_not
    with pytest.raises(AccelError, match=r"aarch64. Use --backend gloo"):
        build()


@pytest.mark.skipif(any(built.why_not_buildable()), reason=" ".join(built.why_not_buildable()))
def test_wheels_that_cannot_be_fetched_are_told_in_pips_words_and_nothing_is_left(
    monkeypatch, no_build
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(no_build))
    told: list[str] = []
    with pytest.raises(AccelError, match="Intel's wheels could not be installed") as failed:
        build(told.append)
    assert "oneccl-devel" in failed.value.asked  # the last lines of pip
    assert "Intel's licence" in told[0]
    assert list((no_build / "accel").iterdir()) == []


@pytest.mark.parametrize(
    ("given", "why"),
    [({"compress": "powersgd:2"}, "each would wait for the other"), ({"plan": "fully_shard"}, "put together at the end")],
    ids=["powersgd", "fully_shard"],
)  # fmt: skip
def test_what_would_hang_or_fail_at_the_end_is_refused_before_it_begins(pool, given: dict, why: str) -> None:
    with pytest.raises(AccelError, match=why) as refused:
        CellRun(pool, TRAIN, notebook(), RunOptions(**given), filename="<cell>", backend="ccl")
    assert "--backend gloo" in refused.value.do


@on_linux
def test_what_a_killed_rank_left_in_shared_memory_goes_with_its_folder() -> None:
    with (
        subprocess.Popen([sys.executable, "-c", ""]) as ended,
        subprocess.Popen([sys.executable, "-c", ""]) as other,
    ):
        pass
    left, of_another = Path(f"/dev/shm/{ended.pid}:0:0"), Path(f"/dev/shm/{other.pid}:0:0")
    folder = RankFolder()
    try:
        left.write_text("")
        of_another.write_text("")
        remove_of(folder.path)  # it used no oneCCL
        assert left.exists()
        Path(folder.path, "oneccl-process").write_text(str(ended.pid))
        folder.close()
        assert not left.exists()
        assert of_another.exists()
    finally:
        left.unlink(missing_ok=True)
        of_another.unlink(missing_ok=True)


def test_ranks_that_cannot_use_it_all_train_over_gloo_and_say_why(pool, no_build) -> None:
    by_gloo, _ = trained(pool, TRAIN, "gloo")
    namespace, result = trained(pool, TRAIN, "ccl", communication=True)
    assert result.backend == result.communication.backend == "gloo"
    assert "2 ranks over gloo trained" in str(result)
    assert "oneCCL could not be used (rank 0: oneCCL is not built here" in " ".join(result.notes)
    assert "trained over gloo" in " ".join(result.notes)
    assert difference(namespace["model"], by_gloo["model"]) == 0


@is_built
def test_where_one_rank_alone_cannot_use_it_none_does(pool, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)  # the notebook's variables come with each run

    def look_elsewhere(folder: str) -> None:
        import torch.distributed as dist

        if dist.get_rank() == 1:
            os.environ["XDG_CACHE_HOME"] = folder

    def look_here_again() -> str:
        import torch.distributed as dist

        os.environ.pop("XDG_CACHE_HOME", None)
        return dist.get_backend()

    pool.run(look_elsewhere, str(tmp_path))
    assert run_function(pool, look_here_again, backend="ccl") == ["gloo", "gloo"]
    pool.run(look_here_again)
    assert trained(pool, TRAIN, "ccl")[1].backend == "ccl"


# --- as it is built --------------------------------------------------------------------------------------------------


def every_collective() -> list[list[float]]:
    """What each collective gives in this rank, for several number formats and a tensor that is not contiguous."""
    import torch
    import torch.distributed as dist

    rank, found = dist.get_rank(), []
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int32,
        torch.int64,
        torch.uint8,
    ):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            numbers = torch.arange(1, 7).add(rank).to(dtype)
            dist.all_reduce(numbers, op)
            found.append(numbers)
        sent = torch.arange(6).reshape(2, 3).t().mul(rank + 1).to(dtype)  # not contiguous
        dist.broadcast(sent, src=1)
        parts = [torch.zeros(3, 2, dtype=dtype) for _ in range(2)]
        dist.all_gather(parts, torch.full((3, 2), rank + 1, dtype=dtype))
        found += [sent, *parts]
    flat = torch.zeros(4)
    dist.all_gather_into_tensor(flat, torch.tensor([rank + 0.5, 2.0]))
    share = torch.zeros(2)
    dist.reduce_scatter_tensor(share, torch.arange(4.0) + rank)
    strided = torch.arange(6.0).reshape(2, 3).t()
    dist.all_reduce(strided)
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    dist.barrier()
    assert objects == [{"rank": 0}, {"rank": 1}]
    return [each.double().flatten().tolist() for each in [*found, flat, share, strided]]


@is_built
def test_what_oneccl_has_to_say_is_not_among_the_cells_prints() -> None:
    code = "import sys; from accel.distributed.oneccl.joining import loaded; loaded(sys.argv[1], rank=0, ranks=1); print('cell')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(built.build_folder())], capture_output=True, text=True, check=True
    )
    assert done.stdout == "cell\n"


@is_built
def test_every_collective_gives_what_gloo_gives(pool) -> None:
    by_ccl = run_function(pool, every_collective, backend="ccl")
    assert by_ccl == run_function(pool, every_collective, backend="gloo")


@is_built
def test_the_ranks_of_gloo_stay_warm_for_ccl_and_train_the_same(pool) -> None:
    by_gloo, _ = trained(pool, TRAIN, "gloo")
    pids = pool.pids
    by_ccl, result = trained(pool, TRAIN, "ccl")
    assert pool.pids == pids
    assert result.backend == "ccl"
    assert "experimental" in " ".join(result.notes)
    assert difference(by_ccl["model"], by_gloo["model"]) < 1e-12


@is_built
def test_a_cell_can_have_groups_of_its_own(pool) -> None:
    def in_groups() -> tuple[float, float]:
        import torch
        import torch.distributed as dist

        both, alone = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])][dist.get_rank()]
        of_both, of_one = torch.tensor([1.0 + dist.get_rank()]), torch.tensor([1.0 + dist.get_rank()])
        dist.all_reduce(of_both, group=both)
        dist.all_reduce(of_one, group=alone)
        return of_both.item(), of_one.item()

    assert run_function(pool, in_groups, backend="ccl") == [(3.0, 1.0), (3.0, 2.0)]


@is_built
def test_nothing_listens_on_a_port(pool) -> None:
    def ports() -> int:
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.ones(1 << 20))
        found = [
            each for each in psutil.Process().net_connections("inet") if each.status == psutil.CONN_LISTEN
        ]
        dist.barrier()
        return len(found)

    assert run_function(pool, ports, backend="ccl") == [0, 0]


@is_built
def test_a_mean_is_divided_and_what_cannot_be_had_is_refused_in_words(pool) -> None:
    def mean() -> float:
        import torch
        import torch.distributed as dist

        number = torch.tensor([1.0 + dist.get_rank()])
        dist.all_reduce(number, dist.ReduceOp.AVG)
        return number.item()

    def add_up_booleans() -> None:
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.tensor([True]))

    assert run_function(pool, mean, backend="ccl") == [1.5, 1.5]
    with pytest.raises(RankError, match="--backend ccl: it cannot add up tensors of Bool; use gloo"):
        run_function(pool, add_up_booleans, backend="ccl")

    def gather_nothing() -> tuple[str, float]:
        import torch
        import torch.distributed as dist

        try:
            dist.all_gather([torch.empty(0), torch.empty(0)], torch.empty(0))
        except ValueError as error:
            return str(error), mean()  # the group is as it was
        return "", mean()

    for said, found in run_function(pool, gather_nothing, backend="ccl"):
        assert "all_gather needs a tensor with something in it" in said
        assert found == 1.5


FAULTY = TRAIN.replace("optimizer.zero_grad()", "{line}\n        optimizer.zero_grad()")


@is_built
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
        ("raise ValueError('in a rank')", "it raised ValueError: in a rank"),
        ("time.sleep(1000)", "did not come on for 15 s"),
    ],
    ids=["SIGKILL", "raise", "hang"],
)
def test_a_rank_that_fails_is_named_and_the_others_do_not_wait_for_ever(pool, line, said) -> None:
    with pytest.raises(RankError) as failed:
        trained(pool, FAULTY.format(line=f"if is_rank(1): {line}"), "ccl", timeout_s=HANG_S)
    assert failed.value.rank == 1
    assert said in str(failed.value)
    assert [name for name in shared_memory() if not psutil.pid_exists(int(name.split(":")[0]))] == []


@is_built
def test_a_collective_that_one_rank_alone_calls_stops_all_ranks(pool) -> None:
    cell = TRAIN + "if is_rank(1):\n    torch.distributed.barrier()\n"
    _, result = trained(pool, cell, "ccl", timeout_s=HANG_S)
    assert "rank 1 reached a collective of torch.distributed" in result.notes[0]
    assert trained(pool, TRAIN, "ccl")[1].backend == "ccl"  # the next run works


def test_asking_whether_it_can_be_built_leaves_torch_compile_its_compiler():
    asked = (
        "from accel.distributed.oneccl.built import why_not_buildable; why_not_buildable(); "
        "import torch.utils.cpp_extension"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

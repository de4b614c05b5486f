"""A warm rank trains as a fresh one would: with the code that is on disk now, and with nothing that an earlier cell changed."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import nn

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.ranks.rank_freshness import Freshness
from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import TRAIN, notebook

CHANGES = {
    "a method": ("nn.Linear.forward = lambda self, x: x", "Linear.forward"),
    "a method that another class has": ("nn.Linear.forward = nn.Identity.forward", "Linear.forward"),
    "a method that was inherited": ("nn.Linear.__call__ = lambda self, x: x", "Linear.__call__"),
    "a function": ("torch.save = None", "torch.save"),
    "a function of Python's": ("random.random = lambda: 4", "random.random"),
    "a built-in": ("import builtins; builtins.sorted = list", "sorted"),
    "a function of a module that lost its name": (
        "del torch.random.__name__; torch.random.seed = id",
        "a module.seed",
    ),
    "a method in a module of another name": (
        "nn.modules.linear.__name__ = 'mine'; nn.Linear.forward = id",
        "Linear.forward",
    ),
    "a signal handler": ("signal.signal(signal.SIGUSR2, lambda *_: None)", "signal handlers"),
    "hooks": ("nn.modules.module.register_module_forward_hook(print)", "hooks"),
    "a switch of torch": ("torch.set_autocast_enabled('cpu', True)", "switches of torch"),
    "garbage collection": ("gc.disable()", "garbage collection"),
    "the compiler": ("torch._dynamo.config.suppress_errors = True", "torch.compile"),
    "rights": ("os.umask(0o077)", "rights"),
}


@contextlib.contextmanager
def _put_back() -> Iterator[None]:
    import builtins

    import torch._dynamo.config as compiler

    held = [(nn.Linear, "forward"), (torch, "save"), (random, "random"), (builtins, "sorted")]
    held += [(torch.random, "seed"), (torch.random, "__name__"), (nn.modules.linear, "__name__")]
    before = [(owner, name, vars(owner)[name]) for owner, name in held]
    handler, mask = signal.getsignal(signal.SIGUSR2), os.umask(0)
    os.umask(mask)
    suppresses = compiler.suppress_errors
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        if "__call__" in vars(nn.Linear):
            del nn.Linear.__call__
        signal.signal(signal.SIGUSR2, handler)
        nn.modules.module._global_forward_hooks.clear()
        torch.set_autocast_enabled("cpu", False)
        gc.enable()
        os.umask(mask)
        compiler.suppress_errors = suppresses


@pytest.mark.parametrize(("line", "named"), CHANGES.values(), ids=CHANGES)
def test_what_a_cell_leaves_changed_in_the_process_is_named(line: str, named: str) -> None:
    with _put_back():
        import torch._dynamo  # as every rank has

        freshness = Freshness()
        source = compile(line, "<cell>", "exec")
        exec(source, {"nn": nn, "torch": torch, "random": random, "signal": signal, "gc": gc, "os": os})
        freshness.look()
        assert named in freshness.why_not_again()


def test_what_libraries_do_is_no_reason_for_another_rank() -> None:
    namespace = notebook()
    freshness = Freshness()
    exec(compile(TRAIN, "<cell>", "exec"), namespace)
    more = """
torch.optim.AdamW(model.parameters()).step()
class Net(nn.Module):
    def forward(self, x): return torch.compile(lambda x: x * 2, backend="eager")(x)
Net()(x)
import torchvision, fractions
next(iter(DataLoader([1, 2], num_workers=1)))
"""
    exec(compile(more, "<cell>", "exec"), namespace)
    freshness.look()
    assert freshness.why_not_again() == ""


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's, in the folder that the notebook is in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    file = tmp_path / "helper_of_ranks.py"
    file.write_text("def number(): return 1\n")
    long_ago = time.time() - 100
    os.utime(file, (long_ago, long_ago))
    return file


def _run(pool: RankPool, cell: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    namespace = {"__name__": "__main__"} if namespace is None else namespace
    CellRun(pool, cell, namespace, filename="<cell>").go()
    return namespace


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_ranks_are_kept_warm_renewed_and_leave_no_process(helper: Path) -> None:
    pool = RankPool(1)
    try:
        read = "import helper_of_ranks\nfound = helper_of_ranks.number()\n"
        assert _run(pool, read)["found"] == 1
        first = pool.pids
        cell = "import os; os.environ['OF_A_CELL'] = '1'\nimport warnings; warnings.simplefilter('error')"
        _run(pool, cell)
        seen = _run(
            pool, "import os, warnings\nseen = os.environ.get('OF_A_CELL'), warnings.filters[0][0] == 'error'"
        )
        assert seen["seen"] == (None, False)
        assert _run(pool, read)["found"] == 1
        assert pool.pids == first  # nothing of this needs another process

        helper.write_text("def number(): return 22\n")
        assert _run(pool, read)["found"] == 22
        second = pool.pids
        assert second != first

        leaves = """
import os, subprocess, time
plain = subprocess.Popen(["sleep", "1000"]).pid
apart = subprocess.Popen(["sleep", "1000"], start_new_session=True).pid
orphan = int(subprocess.check_output("setsid sleep 1000 > /dev/null & echo $!", shell=True))
forked = os.fork()
if not forked:
    time.sleep(1000)
import torch
torch.save = None
"""
        left = _run(pool, leaves)
        assert {name: _is_alive(left[name]) for name in ("plain", "apart", "orphan", "forked")} == {
            "plain": False, "apart": False, "orphan": False, "forked": False,
        }  # fmt: skip
        assert _run(pool, "import torch\nhas = torch.save is not None")["has"]
        assert pool.pids != second
    finally:
        pool.close()

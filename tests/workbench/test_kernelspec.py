"""A kernel that starts as a plan was tried: what is installed, started by Jupyter's own manager, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager

from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.workbench.kernelspec import install_kernel

PLAN = """env_var('COST=$HOME ONE="two words"')"""


@pytest.fixture(autouse=True)
def kernels_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))


def test_jupyter_starts_it_with_the_variables():
    made = install_kernel(Plan.parse(PLAN), "mine")
    manager = KernelManager(kernel_name="mine")
    manager.start_kernel()
    try:
        client = manager.blocking_client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive(
            "import os",
            user_expressions={"found": "os.environ['COST'] + '|' + os.environ['ONE']"},
            timeout=60,
        )
        client.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)
    assert reply["content"]["user_expressions"]["found"]["data"]["text/plain"] == "'$HOME|two words'"
    assert "Kernel, Change Kernel, mine" in str(made)


def test_one_of_ours_is_replaced_and_one_of_somebody_else_is_not():
    folder = Path(install_kernel(Plan.parse("omp_wait_policy"), "mine").folder)
    install_kernel(Plan.parse('omp_wait_policy("active")'), "mine")
    spec = json.loads((folder / "kernel.json").read_text())
    assert spec["env"]["OMP_WAIT_POLICY"] == "active"
    del spec["metadata"]
    (folder / "kernel.json").write_text(json.dumps(spec))
    with pytest.raises(AccelError, match="accel did not make"):
        install_kernel(Plan.parse("omp_wait_policy"), "mine")


@pytest.mark.parametrize(
    ("plan", "name", "why"), [("omp_wait_policy", "../x", "letters"), ("channels_last", "x", "no process")]
)
def test_what_is_no_kernel_is_refused(plan, name, why):
    with pytest.raises(AccelError, match=why):
        install_kernel(Plan.parse(plan), name)

"""The extension in a real Jupyter kernel, spoken to as a front end does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

TRAINING = """
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(4, 8) for _ in range(10)]
def train():
    for x in batches:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
"""
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Kernel:
    """A running kernel, and the output of the last cell."""

    manager: KernelManager
    client: Any
    outputs: list[dict[str, Any]] = field(default_factory=list)

    def run(self, code: str) -> dict[str, Any]:
        """The reply to a cell; its outputs are kept in order."""
        self.outputs = []
        reply = self.client.execute_interactive(code, timeout=120, output_hook=self.outputs.append)
        return reply["content"]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.outputs if message["msg_type"] == kind]

    @property
    def displays(self) -> list[dict[str, str]]:
        """The outputs left under the cell, without the line of progress that a slow command shows and then clears."""
        shown: dict[object, dict[str, str]] = {}
        for number, message in enumerate(self.outputs):
            if message["msg_type"] in ("display_data", "update_display_data"):
                content = message["content"]
                shown[content["transient"].get("display_id", number)] = content["data"]
        return [data for data in shown.values() if data["text/plain"]]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory) -> Iterator[Kernel]:
    folder = str(tmp_path_factory.mktemp("ipython"))
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, "IPYTHONDIR": folder})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    running = Kernel(manager, client)
    assert running.run(f"%load_ext accel\n{TRAINING}")["status"] == "ok"
    yield running
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_value_and_profile_are_both_in_the_output(kernel: Kernel) -> None:
    assert kernel.run("%%accel profile\nlast = train()\n1 + 2")["status"] == "ok"
    assert kernel.of_type("execute_result")[0]["data"]["text/plain"] == "3"
    (shown,) = kernel.displays
    assert "Backward" in shown["text/plain"]
    assert "<table" in shown["text/html"]


def test_a_failing_cell_fails_once_then_shows_its_profile(kernel: Kernel) -> None:
    reply = kernel.run("%%accel profile\ntrain()\n1 / 0")
    assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError")
    kinds = [message["msg_type"] for message in kernel.outputs]
    assert kinds.count("error") == 1
    assert "display_data" in kinds[kinds.index("error") :]
    assert len(kernel.displays) == 1
    shown = ANSI.sub("", "\n".join(kernel.of_type("error")[0]["traceback"]))
    assert "line 3" in shown
    assert "----> 3 1 / 0" in shown


def test_top_level_await_works(kernel: Kernel) -> None:
    assert kernel.run("%%accel profile\nimport asyncio\nawait asyncio.sleep(0)\ntrain();")["status"] == "ok"
    assert len(kernel.displays) == 1


def test_the_interrupt_button_ends_a_profiled_cell_and_the_next_one_runs(kernel: Kernel) -> None:
    def interrupt_at_the_first_output(message: dict[str, Any]) -> None:
        kernel.outputs.append(message)
        if message["msg_type"] == "stream":
            kernel.manager.interrupt_kernel()

    kernel.outputs = []
    reply = kernel.client.execute_interactive(
        "%%accel profile\nprint('started', flush=True)\nwhile True:\n    train()",
        timeout=120,
        output_hook=interrupt_at_the_first_output,
    )["content"]
    assert reply["ename"] == "KeyboardInterrupt"
    assert (
        kernel.run("from accel.workload.phase_marks import active_marks\nprint(active_marks())")["status"]
        == "ok"
    )
    assert kernel.of_type("stream")[0]["text"] == "None\n"


def test_tab_completes_through_the_kernel(kernel: Kernel) -> None:
    text = "%accel try fused_optimizer+chan"
    kernel.client.complete(text, len(text))
    reply = kernel.client.get_shell_msg(timeout=60)["content"]
    assert reply["matches"] == ["channels_last"]
    assert text[reply["cursor_start"] : reply["cursor_end"]] == "chan"


def test_shift_tab_shows_the_help(kernel: Kernel) -> None:
    kernel.client.inspect("%accel", 6)
    reply = kernel.client.get_shell_msg(timeout=60)["content"]
    assert reply["found"]
    assert "--timeout-s" in ANSI.sub("", reply["data"]["text/plain"])


def test_lines_of_earlier_cells_are_named_in_a_real_kernel(kernel: Kernel) -> None:
    assert kernel.run("%%accel profile --stacks --memory --full\ntrain()")["status"] == "ok"
    (profile,) = kernel.displays
    shown = profile["text/plain"]
    assert re.search(r"cell \[\d+\], line 10: loss = model\(x\)\.square\(\)\.mean\(\)", shown)
    assert "Memory of tensors on cpu" in shown
    assert not kernel.of_type("stream")

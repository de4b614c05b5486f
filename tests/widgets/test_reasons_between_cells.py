"""When the panel asks what can work here: that reads the user's objects, which no other thread may do while they train."""

from __future__ import annotations

from jupyter_client.manager import start_new_kernel

FIRST_CELL = """
import threading, time
import torch
from accel.workbench import Workbench
from accel_widgets import WorkbenchPanel

class Asked(Workbench):
    def why_not(self, entry):
        asked.append((threading.current_thread() is threading.main_thread(), is_cell_running))
        return super().why_not(entry)

asked, is_cell_running = [], True
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
optimizer = torch.optim.Adam(model.parameters())
workbench = Asked(globals(), spare_workers=0)
panel = WorkbenchPanel(workbench)
workbench.profile('''
for _ in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 1, 8, 8)).sum().backward()
    optimizer.step()
''')
asked.clear()
is_cell_running = False
"""
BUSY_CELL = """
is_cell_running = True
asked_before = list(asked)
asked.clear()
for _ in range(3):
    workbench.keep("fused_optimizer")
    workbench.undo()
workbench.keep("fused_optimizer")
chosen = {"intraop_threads": {"n": "1"}}
turning = threading.Thread(target=lambda: setattr(panel.board, "chosen", chosen))
turning.start(); turning.join()
while "fused_optimizer" not in panel.bar.live:  # drawn by a thread of its own
    time.sleep(0.01)
asked_within = list(asked)
is_cell_running = False
"""
# The board asks an entry at a time, so that a cell that comes waits for one of them only: this one lets them be asked.
SETTLE = """
import asyncio
for _ in range(400):
    await asyncio.sleep(0.05)
    if len(asked) >= len(panel.board._catalogue): break
"""
NEXT_CELL = """
rows = len(panel.board._catalogue)
assert asked_before == [(True, False)] * rows, asked_before
assert asked_within == [], asked_within
assert asked == [(True, False)] * (rows + 1), asked  # of all rows once, and of the knob that was turned
assert [each["name"] for each in panel.board.entries if each["is_kept"]] == ["fused_optimizer"]
import sys
assert "torch_pruning" in sys.modules and "timm" not in sys.modules  # which takes seconds to import
workbench.close()
"""


def test_reasons_are_asked_once_when_the_cell_is_over_and_in_the_main_thread():
    manager, client = start_new_kernel()
    try:
        for cell in (FIRST_CELL, SETTLE, BUSY_CELL, SETTLE, NEXT_CELL):
            answer = client.execute_interactive(cell, timeout=160, output_hook=lambda _message: None)
            assert answer["content"]["status"] == "ok", answer["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

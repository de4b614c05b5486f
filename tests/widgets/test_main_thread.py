"""Where a click's action runs: asked of a real kernel, from another thread, while a cell runs."""

from __future__ import annotations

import threading

from jupyter_client.manager import start_new_kernel

from accel_widgets.main_thread import in_main_thread

BUSY_CELL = """
import threading, time
from accel_widgets.main_thread import in_main_thread
seen = []
def act(): seen.append((threading.current_thread() is threading.main_thread(), is_cell_running))
is_cell_running = True
answers = []
asking = threading.Thread(target=lambda: answers.append(in_main_thread(act)))
asking.start(); asking.join()
assert seen == [] and answers == [False], (seen, answers)
is_cell_running = False
"""
NEXT_CELL = "assert seen == [(True, False)], seen"


def test_from_another_thread_it_waits_for_the_running_cell_and_runs_in_the_main_thread():
    manager, client = start_new_kernel()
    try:
        for cell in (BUSY_CELL, NEXT_CELL):
            answer = client.execute_interactive(cell, timeout=160, output_hook=lambda _message: None)
            assert answer["content"]["status"] == "ok", answer["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_without_a_kernel_it_runs_at_once_in_the_thread_that_asks():
    ran: list[threading.Thread] = []
    asking = threading.Thread(target=lambda: in_main_thread(lambda: ran.append(threading.current_thread())))
    asking.start()
    asking.join()
    assert ran == [asking]

from __future__ import annotations

import threading

from accel_widgets.calm_updates import CalmUpdates


def test_many_requests_are_few_drawings_and_the_last_state_is_drawn():
    state, drawn, is_last_drawn = {"value": 0}, [], threading.Event()

    def draw() -> None:
        drawn.append(state["value"])
        if state["value"] == 1000:
            is_last_drawn.set()

    updates = CalmUpdates(draw, per_second=50)

    def ask() -> None:
        for _ in range(250):
            with lock:
                state["value"] += 1
            updates.request()

    lock = threading.Lock()
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_last_drawn.wait(20)
    assert len(drawn) < 500
    updates.close()


def test_two_threads_never_draw_at_once():
    inside, most, done = [0], [0], threading.Event()

    def draw() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        if threading.current_thread() is not threading.main_thread():
            done.set()
        inside[0] -= 1

    updates = CalmUpdates(draw, per_second=1000)
    for _ in range(200):
        updates.request()
        updates.draw_now()
    assert done.wait(20)
    updates.close()
    assert most[0] == 1


def test_nothing_is_drawn_after_close():
    drawn: list[int] = []
    updates = CalmUpdates(lambda: drawn.append(1), per_second=1)
    updates.draw_now()
    updates.request()
    updates.close()
    count = len(drawn)
    updates.request()
    updates.draw_now()
    assert len(drawn) == count

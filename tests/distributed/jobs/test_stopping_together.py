"""Ranks that share no memory stop after the same step: by the store, whatever the order in which they hear the wish."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch.distributed as dist

from accel.distributed.jobs.job_page import JobPage
from accel.distributed.jobs.rank_lines import Lane, RankLines, last_line


@pytest.mark.parametrize("heard_at", [*itertools.product((0, 1, 5), repeat=3)])
def test_all_ranks_stop_after_the_same_step(heard_at):
    store, barrier = dist.HashStore(), threading.Barrier(len(heard_at))
    stopped: dict[int, int] = {}

    def train(rank: int) -> None:
        page = JobPage(len(heard_at), store)
        for step in range(1, 30):
            barrier.wait(20)  # the exchange of gradients
            if step == heard_at[rank] or (step == 1 and not heard_at[rank]):
                page.ask_to_stop()
            if page.stops_after(rank, step):
                stopped[rank] = step
                break
        page.close()

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(len(heard_at))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert len(stopped) == len(heard_at)
    assert len({*stopped.values()}) == 1
    assert max(heard_at) < min(stopped.values()) <= max(*heard_at, 1) + 3


def test_no_rank_asks_the_store_before_it_hears_the_wish():
    page = JobPage(1, store=None)
    assert not page.stops_after(0, 1)
    page.close()


def test_a_line_that_is_half_written_is_left_out(tmp_path):
    file = tmp_path / "0.jsonl"
    page = JobPage(1, store=None)
    page.write(0, step=3, loss=0.5)
    lines = RankLines(file, lambda: page.lane(0), on_turn=lambda: None, timeout_s=60)
    lines.start()
    lines.end()
    with open(file, "ab") as written:
        written.write(b'{"at_s": 1, "step": 4')
    lane = last_line(file)
    assert isinstance(lane, Lane)
    assert (lane.step, lane.of(0).loss) == (3, 0.5)
    page.close()


def test_a_disk_that_takes_no_lines_costs_lines_and_not_the_training(tmp_path):
    page = JobPage(1, store=None)
    lines = RankLines(tmp_path / "gone" / "0.jsonl", lambda: page.lane(0), on_turn=lambda: None, timeout_s=60)
    lines.start()
    lines.end()
    assert "No such file" in lines.trouble
    page.close()

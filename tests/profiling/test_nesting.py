"""Which event encloses which: the fast way agrees with the obvious one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from accel.profiling.nesting import nearest, nesting_order, overlaps, parents


def nested_events(seed):
    """Random events that nest, on three threads, some of no length, in random order."""
    rng, events = random.Random(seed), []

    def fill(thread, low, high, depth=0):
        at = low
        while at < high:
            start = rng.randint(at, high)
            end = rng.randint(start, high)
            events.append((thread, start, end - start))
            if depth < 4 and end > start:
                fill(thread, start, end, depth + 1)
            at = max(end, at + 1)

    for thread in (3, 1, 9):
        fill(thread, 0, rng.randint(1, 30))
    rng.shuffle(events)
    return np.array(events, dtype=np.int64).T


def parents_one_by_one(order, start, duration, thread):
    found, running = [-1] * len(start), []
    for i in order:
        while running and (
            thread[running[-1]] != thread[i] or start[running[-1]] + duration[running[-1]] <= start[i]
        ):
            running.pop()
        if running:
            found[i] = running[-1]
        running.append(i)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_parents_and_order_are_those_of_a_walk_over_all_events(seed):
    thread, start, duration = nested_events(seed)
    order = nesting_order(thread, start, duration)
    assert order.tolist() == np.lexsort((-duration, start, thread)).tolist()
    parent = parents(order, start, duration, thread)
    assert parent.tolist() == parents_one_by_one(order, start, duration, thread)
    assert not overlaps(parent, start, duration, thread).any()


def test_an_event_that_outlives_the_one_it_began_in_is_found():
    thread, start, duration = np.array([1, 1, 1]), np.array([0, 5, 20]), np.array([10, 10, 5])
    parent = parents(nesting_order(thread, start, duration), start, duration, thread)
    assert overlaps(parent, start, duration, thread).tolist() == [False, True, False]


def test_only_the_rows_in_the_order_take_part():
    thread, start, duration = np.array([1, 1, 1]), np.array([0, 1, 2]), np.array([10, 8, 3])
    assert parents(np.array([0, 2]), start, duration, thread).tolist() == [-1, -1, 0]


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_flagged_one_is_found_at_any_depth(seed):
    thread, start, duration = nested_events(seed)
    parent = parents(nesting_order(thread, start, duration), start, duration, thread)
    flagged = np.random.default_rng(seed).random(len(start)) < 0.3

    def walk(row):
        while row >= 0 and not flagged[row]:
            row = parent[row]
        return row

    assert nearest(parent, flagged).tolist() == [walk(row) for row in range(len(start))]


def test_no_events_have_no_parents():
    nothing = np.zeros(0, dtype=np.int64)
    assert len(parents(nesting_order(nothing, nothing, nothing), nothing, nothing, nothing)) == 0
    assert len(nearest(nothing, nothing.astype(bool))) == 0

"""How much data tells of memory and how much of the caches, on machines with one last-level cache and with many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.machine import read_machine
from accel.machine.peaks import cache_sizes as sizes
from accel.machine.peaks.cache_sizes import CacheSizes, cache_sizes
from tests.machine.trees import tree_files

MIB, GIB = 1 << 20, 1 << 30


def of_tree(name, tmp_path, allowed=()):
    return cache_sizes(read_machine(), allowed, tree_files.write_tree(name, tmp_path))


@pytest.mark.parametrize(
    ("name", "allowed", "expected"),
    [
        ("epyc_multi_ccd", (), (32 * MIB,) * 8),
        ("epyc_multi_ccd", (0, 1, 8, 72), (32 * MIB,) * 2),  # CPU 72 is the second thread of CPU 8's core
        ("xeon_2_sockets_smt", (), (60 * MIB,) * 2),
        ("xeon_2_sockets_smt", tuple(range(32)), (60 * MIB,)),
    ],
)
def test_the_last_level_caches_of_the_cpus_in_use_are_counted(name, allowed, expected, tmp_path) -> None:
    assert of_tree(name, tmp_path, allowed).each_bytes == expected


def test_memory_is_measured_with_what_all_caches_together_cannot_keep(tmp_path) -> None:
    found = of_tree("epyc_multi_ccd", tmp_path)
    moved, note = found.memory_bytes(64 * GIB)
    assert moved >= sizes.TIMES_CACHES * 8 * 32 * MIB
    assert note == ""
    assert 7 * 32 * MIB < found.cached_bytes(threads=64) < 8 * 32 * MIB
    assert 1 * 32 * MIB < found.cached_bytes(threads=2) < 2 * 32 * MIB  # two threads fill two of them


def test_too_little_free_memory_is_said() -> None:
    moved, note = CacheSizes((32 * MIB,) * 8).memory_bytes(2 * GIB)
    assert moved == 512 * MIB
    assert "may be too high" in note
    assert "256 MiB of its caches, so 512 MiB were moved" in note
    moved, note = CacheSizes((2 * MIB,)).memory_bytes(GIB)  # less than we would like, far more than the cache
    assert (moved, note) == (256 * MIB, "")


def test_without_a_tree_the_totals_count_and_without_them_a_guess(tmp_path) -> None:
    machine = read_machine()
    assumed = cache_sizes(replace(machine, caches=()), (), tmp_path)
    assert assumed.total() == sizes.ASSUMED_BYTES
    if machine.caches:
        last = [cache for cache in machine.caches if cache.name == max(each.name for each in machine.caches)]
        totals = cache_sizes(machine, (), tmp_path)
        assert totals.total() == sum(cache.bytes_each * cache.count for cache in last)

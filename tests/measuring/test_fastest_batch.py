"""The fastest batch is the smallest that nothing is told faster than."""

from __future__ import annotations

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.fastest_batch import BatchRung, FastestBatch

UNKNOWN = Quality("other batches")
MIB = 1 << 20


def rung(batch, low, high, *, verdict="faster", peaks=None):
    shown = Interval((low * high) ** 0.5, low, high, 3, 60)
    row = Comparison(
        "batch_size", verdict, shown, None, UNKNOWN, "changes training",
        baseline_ms=20.0, candidate_ms=30.0, samples_per_step=(64, batch),
        peak_bytes=peaks, peak_of="tensors" if peaks else "",
    )  # fmt: skip
    return BatchRung(batch, f"batch_size(factor={batch / 64:g})", row)


def failed(batch, error="it ran out of memory. Use a smaller batch."):
    row = Comparison("batch_size", "undecided", None, None, UNKNOWN, "", state="failed", error=error)
    return BatchRung(batch, "batch_size", row)


def found(*rungs):
    own = sorted([BatchRung(64, ""), *rungs], key=lambda each: each.batch)
    return FastestBatch(tuple(own), 64, "one machine")


def test_the_fastest_is_the_smallest_of_those_that_cannot_be_told_apart():
    result = found(rung(32, 0.6, 0.7), rung(128, 1.3, 1.4), rung(256, 1.7, 1.9), rung(512, 1.75, 1.95))
    assert result.fastest.batch == 256
    assert result.answer == (
        "Fastest: 256 samples (1.80× [1.70, 1.90] per sample, against 64). "
        "512 is not distinguishable from it: the smallest is taken. The largest of these: 512 samples."
    )
    assert "%accel keep batch_size(factor=4)" in str(result)
    assert "--until" in result.advice


def test_the_present_batch_stays_where_nothing_is_told_faster():
    result = found(rung(32, 0.8, 0.9, verdict="slower"), rung(128, 0.98, 1.1, verdict="undecided"))
    assert result.fastest.batch == 64
    assert "the batch that you have" in result.answer
    assert "128 is not distinguishable" in result.answer
    assert result.advice == ""


def test_the_largest_that_is_as_fast_is_named_with_the_memory_of_each():
    peaks = {batch: (MIB, batch // 64 * MIB) for batch in (128, 256, 512)}
    result = found(
        rung(128, 1.3, 1.4, peaks=peaks[128]), rung(256, 1.7, 1.9, peaks=peaks[256]), rung(512, 1.75, 1.95, peaks=peaks[512])
    )  # fmt: skip
    assert (result.fastest.batch, result.largest.batch) == (256, 512)
    assert result.answer.endswith(
        "The largest of these: 512 samples. At the peak of memory 256 takes 4 MiB and 512 takes 8 MiB."
    )
    assert [result.peak_bytes(each) for each in result.rungs] == [MIB, 2 * MIB, 4 * MIB, 8 * MIB]
    assert "as it is; 1 MiB at its peak" in str(result)
    assert list(result.to_dataframe()["peak_bytes"]) == [MIB, 2 * MIB, 4 * MIB, 8 * MIB]


def test_where_nothing_else_is_as_fast_its_own_memory_is_named():
    result = found(rung(128, 1.3, 1.4, peaks=(MIB, 2 * MIB)))
    assert result.largest is result.fastest
    assert result.answer.endswith("Memory at its peak: 2 MiB.")


def test_a_smaller_batch_can_be_the_fastest():
    assert found(rung(32, 1.1, 1.2), rung(128, 0.8, 0.9)).fastest.batch == 32


def test_what_only_a_steady_allocator_shows_is_not_called_the_fastest():
    wide, tight = Interval(0.93, 0.75, 1.15, 3, 60), Interval(1.08, 1.05, 1.11, 3, 60)
    row = Comparison(
        "batch_size", "undecided", wide, tight, UNKNOWN, "changes training", samples_per_step=(64, 128)
    )
    result = found(BatchRung(128, "batch_size(factor=2)", row))
    assert result.fastest.batch == 64
    assert result.advice == ""


def test_a_size_that_failed_is_a_row_and_never_the_answer():
    result = found(rung(128, 1.3, 1.4), failed(256))
    assert result.fastest.batch == 128
    assert "failed: it ran out of memory" in str(result)


def test_every_form_holds_every_size_and_escapes_what_comes_from_a_cell():
    result = found(rung(128, 1.3, 1.4), failed(256, "<script>"))
    assert "<script>" not in result._repr_mimebundle_()["text/html"]
    assert list(result.to_dataframe()["batch"]) == [64, 128, 256]
    assert result.to_dict()["fastest"] == 128
    pytest.importorskip("plotly")
    assert list(result.figure().data[0].x) == [64, 128]

"""Every kind of table of a profile: as many rows as there are things, columns even without any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel.errors import UnknownName
from accel.profiling.device_activity import KernelRow
from accel.profiling.memory_use import MemoryPoint
from accel.profiling.profile_tables import TABLES
from tests.profiling.figures.test_figures import MEMORY


def test_operations_are_the_default(real_profile):
    table = real_profile.to_dataframe()
    assert len(table) == len(real_profile.rows)
    assert table["self_ms"].is_monotonic_decreasing
    assert table.equals(real_profile.to_dataframe("operations"))


def test_steps_and_phases_are_tables_too(real_profile):
    assert real_profile.to_dataframe("steps")["is_warm_up"].sum() == 1
    assert real_profile.to_dataframe("phases")["share"].sum() == pytest.approx(1)


def test_rows_of_several_devices_tell_which(real_profile):
    table = replace(real_profile, memory=(MEMORY, replace(MEMORY, device="cuda:0"))).to_dataframe("memory")
    assert table["device"].value_counts().to_dict() == {"cpu": 3, "cuda:0": 3}
    assert table["bytes"].max() == MEMORY.peak_bytes


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_without_rows_has_its_columns(real_profile, kind):
    bare = replace(
        real_profile, rows=(), lines=(), costs=(), devices=(), memory=(), loaders=(), synchronisations=(), findings=(),
        timing=replace(real_profile.timing, each_step=(), phases=()),
    )  # fmt: skip
    table = bare.to_dataframe(kind)
    assert len(table) == 0
    assert len(table.columns) > 2


def test_columns_are_the_fields_of_a_row(real_profile):
    assert list(real_profile.to_dataframe("memory").columns) == ["device", *MemoryPoint.__dataclass_fields__]
    assert list(real_profile.to_dataframe("kernels").columns) == ["device", *KernelRow.__dataclass_fields__]


def test_a_wrong_kind_gives_the_nearest_right_word(real_profile):
    with pytest.raises(UnknownName, match="Did you mean 'kernels'"):
        real_profile.to_dataframe("kernel")

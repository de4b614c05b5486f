"""The core map that `%accel affinity` shows, of each recorded machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.machine.affinity import Affinity, read_cpu_map
from tests.machine.snapshots import check_snapshot
from tests.machine.trees import tree_files


@pytest.mark.parametrize("name", tree_files.names())
def test_the_core_map_of_a_machine_is_as_recorded(name: str, tmp_path: Path) -> None:
    cpu_map = read_cpu_map(tree_files.write_tree(name, tmp_path))
    check_snapshot(f"affinity/{name}.txt", str(Affinity(cpu_map, ())))

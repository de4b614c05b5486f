"""A machine's /sys and /proc as one small JSON file: {path: text}, below which nothing else of that machine is needed.

In a path "[0-31,64-95]" stands for each CPU of the list, so that 128 CPUs of one kind are one line. Your own machine's:

    python -m tests.machine.trees.tree_files NAME

writes tests/machine/trees/NAME.json, from files that tell what the processors and the memory are, and no names of yours.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from accel.machine.cpu_lists import cpu_list, parse_cpu_list

HERE = Path(__file__).parent

TOLD = (
    "proc/cpuinfo", "proc/meminfo", "proc/loadavg",
    "sys/devices/system/cpu/online", "sys/devices/system/cpu/possible", "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/kernel_max", "sys/devices/system/cpu/smt/active",
    "sys/devices/system/cpu/cpu[0-9]*/online", "sys/devices/system/cpu/cpu[0-9]*/cpu_capacity",
    "sys/devices/system/cpu/cpu[0-9]*/topology/*", "sys/devices/system/cpu/cpu[0-9]*/cache/index*/*",
    "sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq", "sys/devices/cpu_*/cpus",
    "sys/devices/system/node/online", "sys/devices/system/node/node[0-9]*/cpulist",
    "sys/devices/system/node/node[0-9]*/cpumap", "sys/devices/system/node/node[0-9]*/distance",
    "sys/devices/system/node/node[0-9]*/meminfo", "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/hugepages/hugepages-*/nr_hugepages", "sys/kernel/mm/hugepages/hugepages-*/free_hugepages",
)  # fmt: skip


def write_tree(name: str, root: Path) -> Path:
    """Write the tree of that name below `root`, as the machine would show it."""
    for path, text in expanded(json.loads((HERE / f"{name}.json").read_text())).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    return root


def names() -> list[str]:
    """The trees that are here."""
    return sorted(path.stem for path in HERE.glob("*.json"))


def expanded(compact: Mapping[str, str]) -> dict[str, str]:
    """One path for each CPU of a list."""
    found = {}
    for path, text in compact.items():
        listed = re.search(r"\[([0-9,-]+)\]", path)
        numbers = map(str, parse_cpu_list(listed.group(1))) if listed else [""]
        found |= {path.replace(listed.group(), number) if listed else path: text for number in numbers}
    return found


def compacted(files: Mapping[str, str]) -> dict[str, str]:
    """CPUs of the same text in one line."""
    same: dict[tuple[str, str], list[int]] = {}
    for path, text in files.items():
        number = re.search(r"/cpu(\d+)/", path)
        pattern = path.replace(number.group(), "/cpu[]/", 1) if number else path
        same.setdefault((pattern, text), []).append(int(number.group(1)) if number else -1)
    found = {}
    for (pattern, text), numbers in same.items():
        listed = str(numbers[0]) if len(numbers) == 1 else f"[{cpu_list(sorted(numbers))}]"
        found[pattern.replace("[]", listed, 1)] = text
    return dict(sorted(found.items()))


def save(name: str, files: Mapping[str, str]) -> None:
    """Write the JSON file of a tree."""
    text = json.dumps(compacted(files), indent=0, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n")


def recorded(root: Path, told: Iterable[str] = TOLD) -> dict[str, str]:
    """What a machine tells, in the files of interest; no file of a process or a user is among them."""
    files = {}
    for pattern in told:
        for path in root.glob(pattern):
            try:
                files[str(path.relative_to(root))] = path.read_text().rstrip("\n")
            except OSError:  # a folder, or a file that this kernel does not fill
                continue
    status = (root / "proc/self/status").read_text()
    mask = re.search(r"^Cpus_allowed_list:.*$", status, re.MULTILINE)
    return files | ({"proc/self/status": mask.group()} if mask else {})


if __name__ == "__main__":
    save(sys.argv[1], recorded(Path("/")))

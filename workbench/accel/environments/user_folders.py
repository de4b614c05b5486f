"""Which folders of an import path are the user's own, for an interpreter that has packages of its own."""

from __future__ import annotations

import os
import sys

from accel.private_disk.mounts import is_in


def own_folders(import_path: list[str]) -> list[str]:
    """Without the folders of this interpreter and of packages: another one has its own."""
    of_interpreter = [os.path.realpath(each) for each in (sys.prefix, sys.base_prefix)]
    return [
        each for each in import_path
        if each and not _holds_packages(each) and not any(is_in(os.path.realpath(each), one) for one in of_interpreter)
    ]  # fmt: skip


def _holds_packages(folder: str) -> bool:
    return os.path.basename(folder) in ("site-packages", "dist-packages") or os.path.isdir(
        os.path.join(folder, "torch")
    )

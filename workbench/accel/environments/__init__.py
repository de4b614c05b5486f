"""Environments of their own: other versions of torch and libraries that cannot live beside the notebook's.

    recipes.py       what goes into one: "intel", "nni", "openmp", "torch==2.8"
    environment.py   those that are there: where, with which versions
    interpreter.py   what an interpreter says of itself
    on_disk.py       their folder: one process at a time changes it
    user_folders.py  the user's own folders of an import path
    wanted.py        which one has what an acceleration needs
    creating.py      making one: as a whole or not at all
    uv_process.py    uv as a process that ends with ours, and tells how far it is

A process of such an environment is started as any other: its interpreter stands in a `Start` (accel.processes.start).
"""

from __future__ import annotations

import sys

from accel.callable_package import CallablePackage

sys.modules[__name__].__class__ = CallablePackage

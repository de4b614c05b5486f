"""`%accel oneccl` and its option."""

from __future__ import annotations

from accel.commands.command import OUT, Command, switch

ONECCL = Command(
    "oneccl",
    "say whether ranks can talk by oneCCL (--backend ccl, experimental), or build it",
    "%accel oneccl --build",
    (
        switch(
            "--build",
            "download Intel's wheels into a private folder, and compile the backend against this torch",
        ),
        OUT,
    ),
    needs_notebook=False,
)

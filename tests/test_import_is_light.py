"""`import accel` and `%load_ext accel` load nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "torchvision",
    "numpy",
    "pandas",
    "IPython",
    "ipywidgets",
    "anywidget",
    "plotly",
    "libcst",
    "psutil",
)


def loaded_by(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after running the code."""
    shown = subprocess.check_output(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], text=True
    )
    return {name.split(".")[0] for name in shown.split()} & set(HEAVY)


@pytest.mark.parametrize(
    "statement",
    [
        "import accel",
        "import accel; accel.Workbench",
        "import accel.machine",
        "import accel.commands",
        "import accel.cli",
        "import accel; accel.help('try')",
        "import accel.errors, accel.html_parts, accel.workload.replica, accel.workbench",
    ],
)
def test_importing_accel_loads_nothing_heavy(statement: str) -> None:
    if statement.endswith("Workbench"):
        assert loaded_by(statement).isdisjoint(
            {"IPython", "ipywidgets", "anywidget", "plotly", "pandas", "libcst"}
        )
    else:
        assert loaded_by(statement) == set()


def test_loading_the_extension_adds_nothing_heavy_to_ipython() -> None:
    shell = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell()\n"
    assert loaded_by(shell + "shell.run_line_magic('load_ext', 'accel')") == loaded_by(shell)
    assert "torch" not in loaded_by(shell)


def test_asking_for_help_loads_no_torch() -> None:
    assert "torch" not in loaded_by("from accel.cli import main; main(['help'])")

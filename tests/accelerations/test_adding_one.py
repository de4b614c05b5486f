"""Adding an acceleration takes the places that CONTRIBUTING names: its file, a line in CATALOGUE, a line in CASES, the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accel

HERE = Path(__file__).parent
EVERYWHERE = """
import io, contextlib, torch
import accel
from accel.accelerations import by_name
from accel.accelerations.acceleration import card
from accel.plans.plan import Plan
from accel.commands.accelerations import AccelerationList
from accel.commands.line.completing import complete
from accel.workbench import Workbench, trial_start
from accel.workers.samples import Effort
from accel.workers.staged_trial import TrialSetting

plan = Plan.parse("gentle_steps(by=4)+channels_last")
assert str(plan) == "channels_last+gentle_steps(by=4)", plan
assert plan.effect == "changes training"
assert "gentle_steps" in complete("%accel try gen")
assert complete("%accel try gentle_steps(") == ["by=", "on="]
assert "gentle_steps" in str(AccelerationList.of_catalogue())
assert all(card(by_name("gentle_steps"))[1].values())

namespace = {"__name__": "__main__"}
exec('''
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
images = torch.randn(8, 4)
''', namespace)
cell = '''
for _ in range(8):
    optimizer.zero_grad()
    model(images).pow(2).mean().backward()
    optimizer.step()
'''
bench = Workbench(namespace, spare_workers=0)
bench.profile(cell)
assert any(row.name == "gentle_steps" and row.is_applicable for row in bench.accelerations())
bench.keep("gentle_steps", on="optimizer")
assert namespace["optimizer"].param_groups[0]["lr"] == 0.25
exported = bench.export().code
assert "_options['lr'] / 2" in exported, exported
bench.undo()
assert namespace["optimizer"].param_groups[0]["lr"] == 0.5
quickly = dict(effort=Effort(warm_up=1, least_rounds=4, most_rounds=4, seconds=2), notebook_relaunches=1)
trial_start.TrialSetting = lambda **given: TrialSetting(**given | quickly | {"can_be_steady": False})
row = bench.try_("gentle_steps").rows[0]
assert row.state == "done" and all(took for _, took, _ in row.proofs), row
bench.close()
"""


@pytest.fixture(scope="module")
def copy_with_one_more(tmp_path_factory):
    """The package and its contract tests, with the four steps taken."""
    root = tmp_path_factory.mktemp("one_more")
    package = shutil.copytree(Path(accel.__file__).parent, root / "workbench" / "accel")
    tests = shutil.copytree(HERE, root / "tests" / "accelerations")
    shutil.copy(HERE / "toy_entry.txt", package / "accelerations" / "gentle_steps.py")
    catalogue = package / "accelerations" / "__init__.py"
    insert(
        catalogue,
        "from accel.errors import UnknownName",
        "from accel.accelerations.gentle_steps import GentleSteps",
    )
    insert(catalogue, "    FusedOptimizer,", "    GentleSteps,")
    case = '    "gentle_steps": Case(lambda made: made.optimizer.param_groups[0].pop("gentle")),'
    insert(tests / "cases.py", '    "fused_optimizer":', case)
    return root


def insert(file: Path, before: str, line: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, f"{line}\n{before}", 1))


def run(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root / "workbench"), "ACCEL_HISTORY": "off"}
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=500
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return ran.stdout


def test_the_contract_is_asked_of_it(copy_with_one_more):
    of_it = ("-k", "[gentle_steps] or [GentleSteps", "tests/accelerations/test_contract.py")
    last = run(copy_with_one_more, "-m", "pytest", "-x", "-p", "no:cacheprovider", *of_it).splitlines()[-1]
    assert int(re.search(r"(\d+) passed", last)[1]) > 8, last


def test_it_is_in_plans_completion_lists_cards_trials_keep_and_export(copy_with_one_more):
    (copy_with_one_more / "everywhere.py").write_text(EVERYWHERE)
    run(copy_with_one_more, "everywhere.py")

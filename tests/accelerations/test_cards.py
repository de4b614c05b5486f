from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from accel.accelerations.cards import page

COMMITTED = Path(__file__).parents[2] / "docs" / "accelerations.md"


def test_the_committed_page_is_what_the_cards_say():
    assert COMMITTED.read_text(encoding="utf-8") == page(), (
        "run: python -m accel.accelerations.cards docs/accelerations.md"
    )


def test_the_catalogue_is_read_without_torch():
    code = "import sys, accel.accelerations.plan as p; p.knobs_of(p.by_name('autocast')); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"

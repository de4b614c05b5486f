"""Whatever a cell leaves in the notebook's variables: the trained state comes home, and what cannot come is named."""

from __future__ import annotations

import os
import textwrap
from typing import Any

import pytest

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import TRAIN, alone, difference, notebook, on_ranks

# One line or two that leave `odd` in a variable, or change something of the notebook's, so that it does not get home.
NOT_PICKLED = {
    "generator": "odd = (i for i in range(3))",
    "open file": "odd = open('/dev/null', 'w')",
    "socket": "import socket; odd = socket.socket()",
    "live iterator": "odd = iter(loader)",
    "thread": "import threading; odd = threading.Thread()",
    "database": "import sqlite3; odd = sqlite3.connect(':memory:')",
    "frame": "import sys; odd = sys._getframe()",
    "pointer": "import ctypes; odd = ctypes.pointer(ctypes.c_int(3))",
    "closure over a generator": "held = (i for i in range(3)); odd = lambda: held",
    "deep chain": "odd = []\nfor _ in range(20_000):\n    odd = [odd]",
    "raises as it is pickled": (
        "class Odd:\n    def __reduce__(self): raise LookupError('no')\nodd = Odd(); odd.it = iter(loader)"
    ),
    "exits as it is pickled": "class Odd:\n    def __reduce__(self): raise SystemExit(3)\nodd = Odd()",
    "text of its error raises": (
        "class Bad(Exception):\n    def __str__(self): raise ValueError\n"
        "class Odd:\n    def __getstate__(self): raise Bad\nodd = Odd(); odd.it = iter(loader)"
    ),
    "shared with one that cannot": "odd = [kept, (i for i in range(3))]",
}
NOT_PUT_TOGETHER = {
    "without end of attributes": (
        "class Odd:\n    def __setstate__(self, state): self.inner = self.inner\n"
        "    def __getattr__(self, name): return getattr(self.inner, name)\nodd = Odd(); odd.x = 1"
    ),
    "raises as it is put together": (
        "class Odd:\n    def __setstate__(self, state):\n"
        "        import os\n        if os.getpid() == home: raise LookupError('no')\n"
        "odd = Odd(); odd.x = 1"
    ),
    "made by a function that fails": (
        "def make():\n    import os\n    if os.getpid() == home: raise LookupError('no')\n"
        "class Odd:\n    def __reduce__(self): return make, ()\nodd = Odd()"
    ),
    "of a module that only the rank has": (
        "import sys, types\nmade = types.ModuleType('only_there')\n"
        "exec('class Odd: pass', vars(made)); sys.modules['only_there'] = made\nodd = made.Odd()\ndel made"
    ),
    "leads to what the notebook has no more": "odd = [passing]",
    "shares what cannot be put together": (
        "class Half:\n    def __setstate__(self, state):\n"
        "        import os\n        if os.getpid() == home: raise LookupError('no')\n"
        "half = Half(); half.x = 1; odd = {'of': half, 'kept': kept}"
    ),
}
NOT_TAKEN = {
    "state that its owner refuses": ("keeper.count = 5", "keeper"),
    "contents of a list that refuses to be cleared": ("stubborn.append(object)", None),
    "attribute of an object without room": (
        "holder.lock = (i for i in range(3))",
        "holder.lock",
    ),
}
EARLIER = """
import os
home = os.getpid()
passing = torch.zeros(2)
class Keeper:
    count = 0
    def state_dict(self): return {'count': self.count}
    def load_state_dict(self, state):
        import os
        if os.getpid() == home: raise RuntimeError('I take no state')
class Stubborn(list):
    def clear(self): raise RuntimeError('not me')
class Holder: pass
keeper, stubborn, holder = Keeper(), Stubborn(), Holder()
"""
LAST = "\nkept = torch.arange(3)\n{odd}\nafter = {{'kept': kept, 'weight': model[0].weight}}\n"


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    """The state that one process trains."""
    return alone(TRAIN)


def _names(missed: tuple[tuple[str, str], ...]) -> dict[str, str]:
    assert all("\n" not in why and len(why) < 500 for _, why in missed)
    return dict(missed)


def _is_home(found: dict[str, Any], trained: dict[str, Any]) -> None:
    """Parameters and the optimizer's state, and what travelled beside the odd one, with what it shares."""
    assert difference(found["model"], trained["model"]) < 1e-12
    momenta = [
        [each["momentum_buffer"] for each in one["optimizer"].state.values()] for one in (found, trained)
    ]
    assert difference(*momenta) < 1e-12
    assert found["epoch"] == 1
    assert found["after"]["kept"] is found["kept"]
    assert found["after"]["weight"] is found["model"][0].weight


@pytest.mark.parametrize("odd", NOT_PICKLED.values(), ids=NOT_PICKLED)
def test_a_variable_that_cannot_be_pickled_is_named_and_all_else_comes_home(
    pool: RankPool, trained: dict[str, Any], odd: str
) -> None:
    found, result = on_ranks(pool, TRAIN + LAST.format(odd=odd), EARLIER)
    _is_home(found, trained)
    assert "odd" in _names(result.left_behind)
    assert "odd" not in found
    assert any(warning.startswith("odd was not brought back") for warning in result.warnings)


@pytest.mark.parametrize("odd", NOT_PUT_TOGETHER.values(), ids=NOT_PUT_TOGETHER)
def test_a_variable_that_cannot_be_put_together_at_home_is_named_and_all_else_comes_home(
    pool: RankPool, trained: dict[str, Any], odd: str
) -> None:
    found = notebook(EARLIER)
    cell = TRAIN + LAST.format(odd=odd)
    run = CellRun(pool, cell, found, RunOptions(batch="global"), filename="<cell>")
    outcome = run.run()
    run.home._home.pop(("passing",), None)  # as where the notebook's own objects changed beside the run
    result = run.home.finish(outcome)
    _is_home(found, trained)
    assert "odd" in _names(result.left_behind)
    assert "odd" not in found


@pytest.mark.parametrize(("change", "name"), NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_what_the_notebooks_own_object_does_not_take_is_named_and_all_else_comes_home(
    pool: RankPool, trained: dict[str, Any], change: str, name: str | None
) -> None:
    found, result = on_ranks(pool, TRAIN + LAST.format(odd=change), EARLIER)
    _is_home(found, trained)
    assert list(_names(result.left_behind)) == ([name] if name else [])
    if name is None:
        assert len(found["stubborn"]) == 1


def test_twenty_odd_ones_at_once_lose_nothing_but_themselves(pool: RankPool, trained: dict[str, Any]) -> None:
    lines = [
        f"def make_{n}():\n    global odd_{n}\n{textwrap.indent(odd, '    ')}\n    return odd\nodd_{n} = make_{n}()"
        for n, odd in enumerate(NOT_PICKLED.values())
    ]
    found, result = on_ranks(pool, TRAIN + LAST.format(odd="\n".join(lines)), EARLIER)
    _is_home(found, trained)
    assert {name for name in _names(result.left_behind) if name.startswith("odd_")} == {
        f"odd_{n}" for n in range(len(lines))
    }


def test_an_interrupt_on_the_way_home_leaves_all_of_the_new_state_and_says_so(
    pool: RankPool, trained: dict[str, Any]
) -> None:
    earlier = EARLIER.replace("raise RuntimeError('I take no state')", "signal.raise_signal(signal.SIGINT)")
    found = notebook("import signal" + earlier)
    cell = TRAIN + LAST.format(odd="keeper.count = 5\nholder.word = 'new'")
    run = CellRun(pool, cell, found, RunOptions(batch="global"), filename="<cell>")
    outcome = run.run()
    with pytest.raises(KeyboardInterrupt, match="the trained state is in your"), run.home.true_interrupts():
        run.home.finish(outcome)
    _is_home(found, trained)
    assert found["holder"].word == "new"


def test_the_notebook_is_who_the_test_thinks() -> None:
    assert alone("", EARLIER)["home"] == os.getpid()

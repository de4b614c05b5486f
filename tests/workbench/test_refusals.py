"""One unsuitable object does not refuse a whole entry without a word: the reason names the objects it can work on."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from accel.accelerations import CATALOGUE
from accel.commands.accelerations import accelerations_of
from accel.errors import NotApplicable
from accel.plans.chosen import OF_THE_PROCESS, only_roles
from accel.plans.plan import Plan
from accel.workbench import Workbench

CELL = """
for x, y in train_loader:
    optimizer_a.zero_grad()
    optimizer_b.zero_grad()
    loss = criterion(second(first(x)), y)
    loss.backward()
    optimizer_a.step()
    optimizer_b.step()
for x, y in val_loader:
    criterion(second(first(x)), y)
"""


class Decoded(Dataset):
    """Samples that take work to make, and are the same every time."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((8,), index / 64), index % 4


@pytest.fixture
def workbench():
    first, second = nn.Linear(8, 8, bias=False), nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
    namespace = {
        "first": first, "second": second, "criterion": nn.CrossEntropyLoss(),
        "optimizer_a": torch.optim.SGD(first.parameters(), lr=0.1),
        "optimizer_b": torch.optim.SGD(second.parameters(), lr=0.1),
        "train_loader": DataLoader(Decoded(), batch_size=8),
        "val_loader": DataLoader(TensorDataset(torch.randn(16, 8), torch.randint(4, (16,))), batch_size=8),
    }  # fmt: skip
    bench = Workbench(namespace, spare_workers=0)
    bench.profile(CELL)
    yield bench
    bench.close()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("cache_dataset", 'It can work on train_loader alone. Write cache_dataset(on="train_loader").'),
        ("bias_off", 'It can work on second alone. Write bias_off(on="second").'),
    ],
)
def test_a_refusal_names_the_object_on_which_the_entry_can_work(workbench, entry, says):
    with pytest.raises(NotApplicable) as refused:
        workbench.keep(entry)
    assert str(refused.value.reasons[-1]) == says
    assert says in str(accelerations_of(workbench))
    workbench.keep(says.partition(". Write ")[2].rstrip("."))  # as it is written
    assert workbench.kept.names == (entry,)


def test_where_every_plan_is_refused_all_reasons_are_shown(workbench):
    with pytest.raises(NotApplicable) as refused:
        workbench.try_("bias_off", "cache_dataset+bias_off", "loader_workers(n=4000)")
    said = [reason.because for reason in refused.value.reasons]
    assert said[0].startswith("bias_off: ")
    (of_both,) = (each for each in said if each.startswith("cache_dataset+bias_off: cache_dataset: "))
    assert any(each.startswith("bias_off: ") for each in said[said.index(of_both) :])
    assert any(each.startswith("loader_workers(n=4000): ") for each in said)


def test_knobs_stay_in_what_is_suggested(workbench):
    entry = Plan.parse('bias_off(scope="before norm")').entries[0]
    says = 'It can work on second alone. Write bias_off(scope="before norm", on="second").'
    assert str(workbench.why_not(entry)[-1]) == says


def test_what_works_on_none_of_the_objects_gets_no_suggestion(workbench):
    with pytest.raises(NotApplicable) as refused:
        workbench.keep('cache_dataset(on="val_loader")')
    assert "It can work on" not in str(refused.value)


def test_the_objects_are_asked_once_for_a_workload(workbench, monkeypatch):
    entry = Plan.parse("cache_dataset").entries[0]
    asked = []
    own = type(entry).why_not
    monkeypatch.setattr(type(entry), "why_not", lambda *given: asked.append(1) or own(*given))
    workbench.why_not(entry)
    first = len(asked)
    workbench.why_not(entry)
    assert first > 2
    assert len(asked) == first + 1


def test_an_entry_that_is_shown_no_object_refuses(workbench):
    """Else it would be suggested for objects that it does nothing to."""
    nothing = only_roles(workbench.workload, ())
    of_objects = [entry for entry in CATALOGUE if entry.layer not in OF_THE_PROCESS]
    assert [entry.name for entry in of_objects if not entry().why_not(nothing, workbench.machine)] == []

"""Which loader tells quality: never one that the training takes its batches from."""

from __future__ import annotations

import pytest

from accel.errors import AccelError, UnknownName
from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workbench.held_out_data import find_held_out, steps_of_pass
from accel.workbench.trial_start import load_for, packed
from accel.workers.step_block import Pipeline

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
def some(n=32):
    return TensorDataset(torch.randn(n, 4), torch.randint(0, 2, (n,)))
data = some()
loader = DataLoader(data, batch_size=8)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
"""
CELL = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def profiled():
    """A workbench that profiled the cell after some more setup; the cell trains from `loader` unless another is given."""
    benches = []

    def profile(setup="", cell=CELL):
        namespace = {"__name__": "__main__"}
        exec(SETUP + setup, namespace)
        bench = Workbench(namespace, spare_workers=0)
        benches.append(bench)
        bench.profile(cell)
        return bench

    yield profile
    for bench in benches:
        bench.close()


@pytest.fixture
def found(profiled):
    """What is found after some more setup."""

    def find(setup="", cell=CELL, wanted=None):
        bench = profiled(setup, cell)
        return find_held_out(bench.workload, bench.training_loader, bench.namespace.get(wanted, wanted))

    return find


@pytest.mark.parametrize(
    "name",
    [
        "val_loader",
        "valid_dl",
        "testloader",
        "dev_data",
        "held_out",
        "eval_batches",
        "ValLoader",
        "VAL_LOADER",
    ],
)
def test_a_loader_whose_name_says_so_is_found_among_others(found, name):
    assert found(f"{name} = DataLoader(some())\nother = DataLoader(some())") == name


@pytest.mark.parametrize("name", ["latest_loader", "device_loader", "interval_loader", "contest"])
def test_a_word_within_another_word_is_no_name_of_held_out_data(found, name):
    with pytest.raises(AccelError, match=f"several loaders could be meant: {name}, other"):
        found(f"{name} = DataLoader(some())\nother = DataLoader(some())")


@pytest.mark.parametrize(
    "setup",
    [
        "val_loader = DataLoader(data, batch_size=16)",
        "val_loader = DataLoader(torch.utils.data.Subset(data, range(8)))",
        "val_loader = DataLoader(TensorDataset(*data.tensors))",
    ],
)
def test_a_name_alone_does_not_make_training_data_held_out(found, setup):
    with pytest.raises(
        AccelError, match="no DataLoader of the notebook holds data that the training does not see"
    ):
        found(setup)
    assert found(setup + "\ntest_loader = DataLoader(some())") == "test_loader"


@pytest.mark.parametrize(
    "setup",
    [
        "first, second = torch.utils.data.random_split(data, [24, 8])\nloader, val_loader = map(DataLoader, (first, second))",
        "loader = DataLoader(data, sampler=torch.utils.data.SubsetRandomSampler(range(24)))\n"
        "val_loader = DataLoader(data, sampler=torch.utils.data.SubsetRandomSampler(range(24, 32)))",
    ],
)
def test_another_part_of_the_same_data_set_is_held_out(found, setup):
    assert found(setup) == "val_loader"


def test_validation_data_come_before_test_data_which_are_kept_for_the_very_end(found):
    assert found("test_loader = DataLoader(some())\nval_loader = DataLoader(some())") == "val_loader"


def test_the_only_other_loader_is_the_one_whatever_its_name(found):
    assert found("second = DataLoader(some())") == "second"


def test_one_that_the_cell_itself_validates_with_counts_as_held_out(found):
    cell = CELL + "with torch.no_grad():\n    for x, y in second:\n        model(x)\n"
    assert found("second = DataLoader(some())", cell) == "second"


def test_one_that_a_trainer_holds_is_found(found):
    setup = "class Trainer: pass\ntrainer = Trainer()\ntrainer.val_loader = DataLoader(some())\n"
    assert found(setup) == "trainer.val_loader"


@pytest.mark.parametrize(
    "setup",
    ["", "again = DataLoader(data, batch_size=32)", "train_eval = DataLoader(data)", "val_loader = [1, 2]"],
)
def test_training_data_are_not_held_out(found, setup):
    with pytest.raises(AccelError, match="no DataLoader of the notebook holds data") as raised:
        found(setup)
    assert "--held-out" in raised.value.do


def test_several_that_could_be_meant_are_named(found):
    with pytest.raises(AccelError, match="several loaders could be meant: a, b"):
        found("a = DataLoader(some())\nb = DataLoader(some())")


def test_batches_made_by_hand_leave_an_unread_loader_as_held_out(found):
    cell = CELL.replace("in loader", "in [data[:8], data[8:16]]")
    assert found("second = DataLoader(some())\ndel loader", cell) == "second"


def test_the_one_named_is_taken_by_name_or_as_it_is(found):
    setup = "a = DataLoader(some())\nb = DataLoader(some())"
    assert found(setup, wanted="b") == "b"  # the fixture hands the object over
    with pytest.raises(UnknownName, match="Did you mean 'loader'"):
        found(wanted="laoder")
    with pytest.raises(AccelError, match="holds no batches"):
        found("number = 3", wanted="number")


ACCUMULATING = """
for number, (x, y) in enumerate(loader):
    criterion(model(x), y).backward()
    if number % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
"""
IN_A_FUNCTION = """
def train(epochs):
    {made} = DataLoader(data, batch_size=8)
    for epoch in range(epochs):
        for x, y in {made}:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
train({epochs})
"""
AND_VALIDATED = "            optimizer.step()\n        for x, y in DataLoader(data, batch_size=4):\n            model(x)\n"


@pytest.mark.parametrize(
    ("cell", "steps"),
    [
        (CELL, 4),
        (f"{CELL}    if y.numel():\n        break\n", 4),  # a part of a pass tells of the whole
        (f"for epoch in range(3):{CELL}".replace("\n", "\n    "), 4),
        (ACCUMULATING, 2),  # one whole step of three batches, and a batch
        (ACCUMULATING.replace("% 3 == 2", "% 2"), 2),
        (IN_A_FUNCTION.format(made="own", epochs=3), 4),
        (IN_A_FUNCTION.format(made="own", epochs=1), 4),
        (IN_A_FUNCTION.format(made="own", epochs=3).replace("            optimizer.step()\n", AND_VALIDATED), 4),
        (CELL.replace("in loader", "in [(torch.randn(8, 4), torch.ones(8).long())] * 5"), 0),
    ],
    ids=[
        "known", "in part", "three epochs", "rest", "accumulating", "gone", "gone after one epoch", "validated", "by hand"
    ],
)  # fmt: skip
def test_steps_of_a_whole_pass_are_known_also_where_the_loader_is_gone(profiled, cell, steps):
    bench = profiled(cell=cell)
    assert steps_of_pass(bench.workload, bench.training_loader) == steps


IN_A_THREAD = """
import queue, threading
class Ahead:
    def __init__(self, source):
        self.source = source
    def __iter__(self):
        ready = queue.Queue(2)
        def fill():
            for batch in self.source:
                ready.put(batch)
            ready.put(None)
        threading.Thread(target=fill).start()
        yield from iter(ready.get, None)
"""
BY_A_POOL = """
from concurrent.futures import ThreadPoolExecutor
def ahead(source):
    batches, pool = iter(source), ThreadPoolExecutor(1)
    waiting = pool.submit(next, batches, None)
    while (batch := waiting.result()) is not None:
        waiting = pool.submit(next, batches, None)
        yield batch
"""


@pytest.mark.parametrize(
    ("setup", "taken", "is_ahead"),
    [("", "loader", False), (IN_A_THREAD, "Ahead(loader)", True), (BY_A_POOL, "ahead(loader)", True)],
)
def test_batches_that_a_thread_of_the_users_fetches_are_made_ahead(profiled, setup, taken, is_ahead):
    bench = profiled(setup, CELL.replace("in loader", f"in {taken}"))
    parcel, _ = packed(bench, bench.workload)
    load = load_for(parcel, bench.workload, bench.training_loader)
    assert load.makes_ahead is is_ahead
    pipeline = Pipeline.of([Plan.parse("channels_last")], load)
    assert (pipeline is not None and pipeline.has_threads) is is_ahead

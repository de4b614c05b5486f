"""A workload copied by value: one dump, shared memory, the cell's own namespace, and errors that name the variable."""

from __future__ import annotations

import dataclasses
import os
import random
import sys
import warnings

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from accel.errors import NotShippable
from accel.workload.capture import CellCapture
from accel.workload.generators import device_here, generator_states, restore_generators
from accel.workload.memory_file import MemoryFile
from accel.workload.shipping import dump, load, pack, unpack

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
history = []

def train():
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    scheduler.step()
"""


@pytest.fixture(autouse=True)
def _own_main(monkeypatch):
    """Restore `__main__` after each test: `unpack` replaces it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def captured(cell, extra=""):
    namespace = {"__name__": "__main__"}
    exec(compile(SETUP + extra, "<setup>", "exec"), namespace)
    capture = CellCapture(cell, cell, namespace)
    with capture:
        exec(compile(cell, capture.filename, "exec"), namespace)
    return capture.finish()[0]


def delivered(workload):
    """Pack and unpack in this process, generators put back as they were."""
    states = generator_states()
    parcel = pack(workload)
    try:
        return unpack(parcel.blob, MemoryFile(os.dup(parcel.memory.descriptor)))
    finally:
        parcel.close()
        restore_generators(states)


def copied(contents):
    memory = MemoryFile()
    return load(dump(contents, memory), memory)


def test_anomaly_mode_of_an_earlier_cell_comes_along():
    torch.set_anomaly_enabled(True, False)
    try:
        workload = captured("train()")
        assert workload.conditions.anomaly_mode
        parcel = pack(workload)
        torch.set_anomaly_enabled(False, True)
        unpack(parcel.blob, MemoryFile(os.dup(parcel.memory.descriptor)))
        parcel.close()
        assert (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()) == (True, False)
    finally:
        torch.set_anomaly_enabled(False)


def test_the_copy_trains_with_bit_equal_losses_and_leaves_the_original_alone():
    workload = captured("train()")
    before = [parameter.clone() for parameter in workload.namespace["model"].parameters()]
    states, done = generator_states(), len(workload.namespace["history"])
    copy = delivered(workload)
    restore_generators(states)
    exec(workload.source, copy)
    assert all(map(torch.equal, before, workload.namespace["model"].parameters()))
    restore_generators(states)
    exec(workload.source, workload.namespace)
    assert copy["history"] == workload.namespace["history"]
    assert len(copy["history"]) == 2 * done


def test_optimizer_scheduler_and_model_of_the_copy_share_their_parameters():
    copy = delivered(captured("train()"))
    owned = {id(p) for p in copy["model"].parameters()}
    assert {id(p) for group in copy["optimizer"].param_groups for p in group["params"]} == owned
    assert copy["scheduler"].optimizer is copy["optimizer"]
    assert set(map(id, copy["optimizer"].state)) == owned


def test_functions_of_earlier_cells_see_what_the_cell_writes():
    copy = delivered(captured("scale = 3\nresult = use()\ntrain()", "\ndef use():\n    return scale * 2\n"))
    exec("scale = 5\nresult = use()", copy)
    assert copy["result"] == 10
    assert copy["train"].__globals__ is copy


def test_a_class_of_an_earlier_cell_travels_by_value():
    extra = "\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\nnet = Net()\n"
    workload = captured("net(torch.ones(1))\ntrain()", extra)
    copy = delivered(workload)
    assert type(copy["net"]).__name__ == "Net"


def test_an_optimizer_class_of_an_earlier_cell_is_seen_to_step_where_it_arrives():
    own = """
class Plain(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            p.sub_(p.grad, alpha=0.1)

class Nested(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)

optimizer = Plain(model.parameters())
other = Nested(model.parameters(), lr=0.1)
"""
    namespace = delivered(captured("train(); other.step()", extra=own))
    stepped = []
    handle = register_optimizer_step_post_hook(lambda each, *_: stepped.append(each))
    try:
        namespace["train"]()
        namespace["other"].step()
    finally:
        handle.remove()
    assert {id(each) for each in stepped} == {id(namespace["optimizer"]), id(namespace["other"])}


def test_what_the_cell_writes_under_a_condition_and_reads_is_there_in_its_next_run():
    cell = """
if best is None:
    best, state, live = 1, model.state_dict(), iter(loader)
model.load_state_dict(state)
live
"""
    namespace = delivered(captured(cell, extra="best = None"))
    assert namespace["best"] == 1
    assert set(namespace["state"]) == set(namespace["model"].state_dict())
    assert "live" not in namespace  # it cannot travel, and the next run may do without


def test_a_function_that_a_module_made_goes_on_using_the_modules_own_variables():
    made = (
        "import functools\nfrom contextlib import contextmanager\n@contextmanager\ndef quiet():\n    yield\n"
    )
    namespace = delivered(captured("quiet(); train()", extra=made))
    import contextlib

    assert namespace["quiet"].__globals__ is vars(contextlib)
    assert namespace["quiet"].__wrapped__.__globals__ is namespace


def test_a_large_data_set_is_mapped_and_a_write_to_it_stays_private():
    extra = "\nbig = torch.zeros(6 << 20)\nview = big[10:20]\n"
    workload = captured("view.sum(); big.sum(); train()", extra)
    parcel = pack(workload)
    first, second = (unpack(parcel.blob, MemoryFile(os.dup(parcel.memory.descriptor))) for _ in range(2))
    assert parcel.memory.size_bytes < 30 << 20, "the two tensors share one storage, which is stored once"
    assert len(parcel.blob) < 1 << 20
    first["big"].fill_(1)
    assert first["view"].sum() == 10
    assert second["big"].sum() == 0
    assert workload.namespace["big"].sum() == 0
    parcel.close()


def test_large_numpy_arrays_travel_in_the_memory_file():
    extra = "\nimport numpy\narray = numpy.arange(1 << 18)\n"
    workload = captured("array.sum(); train()", extra)
    parcel = pack(workload)
    assert len(parcel.blob) < 1 << 20
    parcel.close()
    assert (delivered(workload)["array"] == workload.namespace["array"]).all()


def test_gradients_travel_too():
    workload = captured("train()", "\n")
    copy = delivered(workload)
    for own, theirs in zip(workload.namespace["model"].parameters(), copy["model"].parameters(), strict=True):
        assert torch.equal(own.grad, theirs.grad)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="only Linux tells what is mapped where")
def test_gradients_stay_where_they_are_mapped_and_parameters_do_not():
    """Freed in the first step, a gradient in malloc's memory would leave the heap other than a fresh process has it."""
    copy = delivered(captured("train()", "\n"))
    with open("/proc/self/maps") as maps:
        spans = [line.split()[0].split("-") for line in maps if "accel-workload" in line]
    mapped = [range(int(begin, 16), int(end, 16)) for begin, end in spans]

    def is_mapped(tensor):
        return any(tensor.data_ptr() in each for each in mapped)

    parameters = list(copy["model"].parameters())
    assert all(is_mapped(p.grad) for p in parameters)
    assert not any(is_mapped(p) for p in parameters)
    parameters[0].grad.add_(1.0)  # and is this process's own
    again = delivered(captured("train()", "\n"))
    assert not torch.equal(next(again["model"].parameters()).grad, parameters[0].grad)


def test_generators_of_torch_python_and_numpy_go_on_as_at_home():
    workload = captured("train()")
    parcel = pack(workload)
    expected = (torch.rand(1).item(), random.random())
    unpack(parcel.blob, MemoryFile(os.dup(parcel.memory.descriptor)))
    assert (torch.rand(1).item(), random.random()) == expected
    parcel.close()


def test_an_object_that_cannot_be_pickled_is_named_with_the_reason_and_what_to_do():
    workload = captured("print(data.lock, end='')\ntrain()")
    workload.namespace["data"].lock = (_ for _ in ())
    with pytest.raises(
        NotShippable, match=r"'data' \(TensorDataset\).*cannot pickle 'generator'.*__getitem__"
    ):
        pack(workload)


@pytest.fixture(autouse=True)
def lock_attribute(monkeypatch):
    from torch.utils.data import TensorDataset

    monkeypatch.setattr(TensorDataset, "lock", "", raising=False)


def test_a_live_iterator_of_an_earlier_cell_is_refused_with_its_name():
    workload = captured("next(it)\ntrain()", "\nit = iter(loader)\n")
    with pytest.raises(NotShippable, match="'it'"):
        pack(workload)


def test_a_cell_with_a_line_for_ipython_is_refused():
    workload = captured("train()")
    magic = dataclasses.replace(workload, reads=("get_ipython", *workload.reads))
    with pytest.raises(NotShippable, match="Move that line to a cell of its own"):
        pack(magic)


@pytest.mark.parametrize("kind", ["SGD(model.parameters(), lr=0.1)", "LBFGS(model.parameters(), lr=0.1)"])
@pytest.mark.parametrize("steps_at_home", [False, True])
def test_a_scheduler_of_an_earlier_cell_warns_in_a_copy_as_it_would_at_home(kind, steps_at_home):
    namespace = {}
    exec(
        "import torch\nmodel = torch.nn.Linear(2, 1)\n"
        f"optimizer = torch.optim.{kind}\n"
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
        "def loss():\n    return model(torch.ones(1, 2)).sum()\n"
        "loss().backward()\n",
        namespace,
    )
    if steps_at_home:
        namespace["optimizer"].step(namespace["loss"])
    copies = copied({name: namespace[name] for name in ("optimizer", "scheduler", "loss")})
    again = copied(copies)  # as ranks send home what they made
    for made in (copies, again):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if not steps_at_home:
                made["optimizer"].step(made["loss"])
            made["scheduler"].step()
        assert made["optimizer"].step.__name__ == "step"


def test_an_iterator_of_a_loader_is_answered_with_where_to_make_it():
    workload = captured("train()", "\nbatches = iter(DataLoader(data, batch_size=16))\n")
    reading = dataclasses.replace(workload, reads=("batches", *workload.reads))
    with pytest.raises(NotShippable, match=r"'batches'.* Keep the DataLoader, and write iter"):
        pack(reading)


def test_a_scheduler_that_comes_first_is_warned_of_in_a_copy_too():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    scheduler = copied(torch.optim.lr_scheduler.StepLR(optimizer, 1))
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


def test_a_loader_with_live_worker_processes_travels_without_them():
    extra = "\nloader = DataLoader(data, batch_size=16, num_workers=1, persistent_workers=True)\n"
    workload = captured("train()", extra)
    loader = workload.namespace["loader"]
    copy = delivered(workload)
    assert copy["loader"]._iterator is None
    assert loader._iterator is not None
    assert copy["loader"].num_workers == 1
    loader._iterator._shutdown_workers()


@pytest.mark.parametrize(
    ("device", "gpus", "here"),
    [
        ("cuda:3", 1, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
        ("cuda", 1, "cuda"),
        ("cuda:0", 0, "cuda:0"),
        ("cpu", 1, "cpu"),
    ],
)
def test_what_lies_on_a_gpu_that_a_process_does_not_see_goes_to_its_own(
    device: str, gpus: int, here: str
) -> None:
    assert device_here(device, gpus) == here

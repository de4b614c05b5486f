"""Objects that pickle a part of themselves: what that part names arrives before it, and a model that it cuts apart is refused."""

from __future__ import annotations

import os
import sys

import pytest

from accel.errors import NotShippable
from accel.workload.cell_names import names_read
from accel.workload.memory_file import MemoryFile
from accel.workload.notebook_module import NotebookModule
from accel.workload.shipping import pack_cell, unpack

KEEPER = """
import base64, pickle, io, torch, zlib
from torch import nn
class Inner:
    version = 1
class Other:
    pass
def by_pickle(obj):
    return pickle.dumps([obj, Other()])
def by_old_pickle(obj):
    return pickle.dumps([obj, Other()], protocol=2)
def by_torch(obj):
    torch.save([obj, Other()], stream := io.BytesIO())
    return stream.getvalue()
class Keeper:
    def __init__(self, pickled):
        self.inner, self.pickled = Inner(), pickled
    def __getstate__(self):
        return {"pickled": self.pickled}
    def __setstate__(self, state):
        pickled = state["pickled"]
        torch_file = pickled[:2] == b"PK"
        both = torch.load(io.BytesIO(pickled), weights_only=False) if torch_file else pickle.loads(pickled)
        self.inner = both[0]
"""
MODEL = """
import copy, pickle, torch
from torch import nn
class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layer = nn.Linear(2, 2), nn.Linear(2, 2)
    def __getstate__(self):
        return {**vars(self), "_modules": {"layer": self.layer}, "rest": pickle.dumps(self.inner)}
    def __setstate__(self, state):
        state["_modules"] = {"inner": pickle.loads(state.pop("rest")), **state["_modules"]}
        self.__dict__.update(state)
class Rebuilt(Apart):
    def __init__(self):
        super().__init__()
        self.inner = nn.DataParallel(self.layer)
    def __getstate__(self):
        return {**vars(self), "_modules": {"layer": self.layer}}
    def __setstate__(self, state):
        self.__dict__.update(state)
        self.inner = nn.DataParallel(self.layer)
class Wrapped(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner
class Odd(nn.Linear):
    def named_parameters(self, prefix):
        raise RuntimeError(prefix)
model = Apart()
"""


@pytest.fixture(autouse=True)
def _own_main(monkeypatch):
    """Restore `__main__` after each test: `unpack` replaces it."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def notebook(*cells):
    namespace = {"__name__": "__main__"}
    sys.modules["__main__"] = NotebookModule(namespace)
    for cell in cells:
        exec(compile(cell, "<cell>", "exec"), namespace)
    return namespace


def arrived(namespace, cell):
    parcel = pack_cell(cell, "<cell>", namespace, names_read(cell, namespace))
    try:
        return unpack(parcel.blob, MemoryFile(os.dup(parcel.memory.descriptor)))
    finally:
        parcel.close()


@pytest.mark.parametrize("way", ["by_pickle", "by_old_pickle", "by_torch"])
@pytest.mark.parametrize("cell", ["keeper", "use()", "Use.of"])
def test_a_pickle_finds_the_classes_that_it_names_as_they_are_now(way, cell):
    use = "\ndef use():\n    return keeper\nclass Use:\n    of = staticmethod(use)\n"
    for version in (1, 2):
        cells = (
            KEEPER.replace("version = 1", f"version = {version}"),
            f"keeper = Keeper({way}(Inner()))",
            use,
        )
        copy = arrived(notebook(*cells), cell)
        assert copy["keeper"].inner.version == version
        assert copy["Inner"] is type(copy["keeper"].inner)


def test_text_that_only_mentions_main_brings_nothing_along():
    lines = "gen = (x for x in 'ab')\ndef main():\n    return next(gen)\n"
    namespace = notebook(
        lines, "text = b'def main(): __main__ if __name__'\ndef asks(x):\n    return b'__main__ main' in x"
    )
    assert set(arrived(namespace, "asks(text)")) & {"gen", "main", "text", "asks"} == {"text", "asks"}


def test_a_class_that_cannot_travel_stops_no_cell_that_only_holds_its_pickle():
    lines = (
        "import pickle, threading\nclass Held:\n    lines = (x for x in 'ab')\nblob = [pickle.dumps(Held)]\n"
    )
    assert "Held" not in arrived(notebook(lines), "blob")


def test_where_the_pickle_is_hidden_the_error_says_what_to_do():
    hidden = """
class Hidden:
    def __init__(self, text):
        self.text = text
    def __reduce__(self):
        return opened, (self.text,)
def opened(text):
    return pickle.loads(zlib.decompress(base64.b64decode(text)))()
hidden = Hidden(base64.b64encode(zlib.compress(pickle.dumps(Inner))).decode())
"""
    namespace = notebook(KEEPER, hidden)
    with pytest.raises(
        NotShippable, match=r"'Inner'.*Build the object that holds the pickle in the cell that trains"
    ):
        arrived(namespace, "hidden")


@pytest.mark.parametrize(
    "holder",
    [
        "it = torch.optim.SGD(model.parameters(), 0.1)",
        "it = [torch.optim.SGD(model.parameters(), 0.1)]",
        "it = {'average': list(model.inner.parameters())}",
        "class Trainer: pass\nit = Trainer(); it.model, it.optimizer = model, torch.optim.SGD(model.parameters(), 0.1)",
        "model = nn.Sequential(model); it = torch.optim.SGD(model.parameters(), 0.1)",
    ],
)
def test_a_model_that_would_part_from_its_optimizer_is_refused_before_a_worker_starts(holder):
    namespace = notebook(MODEL, holder)
    with pytest.raises(
        NotShippable, match=r"copy of Apart.*module 'inner'.*also holds 'inner\.(weight|bias)'"
    ):
        pack_cell("model, it", "<cell>", namespace, ["model", "it"])


@pytest.mark.parametrize(
    "holder",
    [
        "it = torch.optim.SGD(model.layer.parameters(), 0.1)",
        "model = Rebuilt(); it = torch.optim.SGD(model.parameters(), 0.1)",
        "model = Rebuilt(); model.inner.weight = model.layer.weight; it = torch.optim.SGD([model.layer.weight], 0.1)",
        "model.inner.requires_grad_(False); it = torch.optim.SGD(model.parameters(), 0.1)",
        "it = copy.deepcopy(model)",
        "it = Wrapped(torch.optim.SGD([torch.ones(1)], 0.1))",
        "it = Odd(2, 2)",
        "it = torch.jit.script(nn.Sequential(nn.Linear(2, 2))); model = torch.optim.SGD(it.parameters(), 0.1)",
    ],
)
def test_a_model_that_nothing_is_cut_off_from_travels(holder):
    copy = arrived(notebook(MODEL, holder), "model, it")
    assert {"model", "it"} <= copy.keys()


def test_a_refusal_leaves_no_memory_file():
    namespace = notebook(MODEL, "it = list(model.inner.parameters())")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotShippable):
        pack_cell("model, it", "<cell>", namespace, ["model", "it"])
    assert len(os.listdir("/proc/self/fd")) == before

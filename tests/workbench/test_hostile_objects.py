"""A profile outlives whatever the user's objects answer: what cannot be read is left out with a line, the workload is kept."""

from __future__ import annotations

import itertools
import re
import textwrap

import pytest

from accel.errors import in_short
from accel.workbench import Workbench

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Transform:
    def __call__(self, x):
        return 2 * x

class Digits(Dataset):
    def __init__(self):
        self.transform = Transform()
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return self.transform(torch.full((4,), index / 24)), index % 2

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x, argument):
        return self.layer(x)

class Argument:
    pass

Criterion, Optimizer, Loader = nn.CrossEntropyLoss, torch.optim.SGD, DataLoader
Scheduler = torch.optim.lr_scheduler.StepLR
"""
OBJECTS = """
torch.manual_seed(0)
dataset, model, criterion, argument = Digits(), Model(), Criterion(), Argument()
loader = Loader(dataset, batch_size=4)
optimizer = Optimizer(model.parameters(), lr=0.1)
scheduler = Scheduler(optimizer, 1)
"""
CELL = """
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x, argument), y)
        loss.backward()
        optimizer.step()
    scheduler.step()
"""
KINDS = {
    ("models", "model"), ("criteria", "criterion"), ("optimizers", "optimizer"), ("schedulers", "scheduler"),
    ("loaders", "loader"),
}  # fmt: skip

# What is hostile, by the name of its class in SETUP; the argument is what the model is called with besides the batch.
ROLES = {
    "model": "Model", "criterion": "Criterion", "optimizer": "Optimizer", "scheduler": "Scheduler", "loader": "Loader",
    "data set": "Digits", "transform": "Transform", "argument": "Argument",
}  # fmt: skip
# How it is hostile: the body of a class that derives from that one.
WAYS = {
    "_modules is a list": """
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.__dict__["_modules"] = ["layer"]
        """,
    "__getattr__ raises": """
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                raise LookupError(name) from None
        """,
    # The class learns what training asks for while the cell runs without accel.
    "__getattribute__ raises for what training does not need": """
        needed, is_armed = set(), False
        def __getattribute__(self, name):
            kind = type(self)
            if kind.is_armed and name not in kind.needed:
                raise LookupError(name)
            kind.needed.add(name)
            return super().__getattribute__(name)
        """,
    "__len__ raises": "def __len__(self): raise LookupError('no length')",
    "__bool__ raises": "def __bool__(self): raise LookupError('no truth value')",
    "__eq__ raises": """
        def __eq__(self, other):
            raise LookupError("equal to nothing")
        __hash__ = object.__hash__
        """,
    "it cannot be hashed": "__hash__ = None",
    "__repr__ raises": "def __repr__(self): raise LookupError('no words')",
    "__class__ lies": "__class__ = property(lambda self: nn.MSELoss)",
    "__class__ raises": "__class__ = property(lambda self: 1 / 0)",
    "properties raise": "shape = device = dtype = name = __name__ = property(lambda self: 1 / 0)",
    "__dict__ raises": "__dict__ = property(lambda self: 1 / 0)",
    "__dict__ is no dict": "__dict__ = property(lambda self: ['nothing'])",
}
# (role, way) of which torch itself cannot train: the cell raises without accel, too.
UNTRAINABLE = {
    *(
        ("model", way)
        for way in ("_modules is a list", "it cannot be hashed", "__dict__ raises", "__dict__ is no dict")
    ),
    *(("criterion", way) for way in ("__getattr__ raises", "__dict__ raises", "__dict__ is no dict")),
    *(("optimizer", way) for way in ("__getattr__ raises", "__class__ lies", "__class__ raises")),
    *(("data set", way) for way in ("__getattr__ raises", "__len__ raises", "__class__ raises")),
}
COMBINATIONS = [each for each in itertools.product(ROLES, WAYS) if each not in UNTRAINABLE]
LEFT_OUT = re.compile(r".+ (?:are left out|failed on this profile) \(.+\)\.")


class CannotTrain(Exception):
    """A combination whose cell raises without accel."""


def trained(role: str, way: str) -> dict[str, object]:
    """The notebook after its cell ran twice without accel; from now on the object refuses what this did not need."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    base, body = ROLES[role], textwrap.indent(textwrap.dedent(WAYS[way]).strip(), "    ")
    try:
        exec(f"{SETUP}\nclass Hostile({base}):\n{body}\n\n{base} = Hostile\n{OBJECTS}", namespace)
        for _ in range(2):
            exec(CELL, namespace)
    except Exception as error:
        raise CannotTrain(
            f"{role}, {way}: the cell raises without accel ({in_short(error)}): put it into UNTRAINABLE"
        ) from error
    namespace["Hostile"].is_armed = True
    return namespace


def check(workbench: Workbench, profile) -> list[str]:
    """The profile is there and the workload kept; the lines on what was left out, which name all that is missing."""
    workload, left_out = workbench.workload, [note for note in profile.notes if LEFT_OUT.fullmatch(note)]
    assert (workbench.profile_result, workload.steps, workload.has_training_step) == (profile, 12, True)
    assert {kind for kind, _ in KINDS} == {role.kind for role in workload.roles}
    assert len(set(left_out)) == len(left_out)
    assert not any("\n" in note for note in profile.notes)
    missing = {
        "Names that the cell reads": not workload.reads,
        "Calls of models": workload.model_calls is None,
        "Values read back": workload.reads_back is None,
        "Times of loaders": not profile.loaders,
        "Operations": not profile.rows,
    }
    for part, is_missing in missing.items():
        assert [note.startswith(f"{part} are left out (") for note in left_out].count(True) == is_missing
    shown = profile._repr_mimebundle_()
    assert "could not be drawn" not in f"{profile}{shown['text/plain']}{shown['text/html']}"
    assert workbench.findings().rows == profile.findings
    assert profile.machine_line in str(workbench.findings())
    assert "12 steps of" in workbench.status().workload
    return left_out


@pytest.mark.parametrize(("role", "way"), COMBINATIONS, ids=[", ".join(each) for each in COMBINATIONS])
def test_a_profile_outlives_a_hostile_object_in_any_role(role, way):
    workbench = Workbench(trained(role, way), spare_workers=0)
    check(workbench, workbench.profile(CELL, steps=1))
    assert {(each.kind, each.name) for each in workbench.workload.roles} == KINDS
    workbench.close()


def test_few_combinations_are_left_out_and_those_only_because_torch_cannot_train():
    assert len(COMBINATIONS) >= 75
    assert {role for role, _ in COMBINATIONS} == set(ROLES)
    assert {way for _, way in COMBINATIONS} == set(WAYS)
    assert len(COMBINATIONS) + len(UNTRAINABLE) == len(ROLES) * len(WAYS)
    for role, way in UNTRAINABLE:
        with pytest.raises(CannotTrain):
            trained(role, way)


CLOSURE = """
class Closure:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __call__(self):
        optimizer.zero_grad()
        loss = criterion(model(self.x, argument), self.y)
        loss.backward()
        return loss
"""
WITH_CLOSURE = """
for epoch in range(2):
    for x, y in loader:
        optimizer.step(Hostile(x=x, y=y))
    scheduler.step()
"""
ATTRIBUTE_DICT = "class Hostile(dict):\n    __getattr__ = dict.__getitem__\n    __call__ = Closure.__call__\n"
CLOSURES = {"its attributes are those of a dict": ATTRIBUTE_DICT} | {
    way: f"class Hostile(Closure):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    for way, body in WAYS.items()
}


@pytest.mark.parametrize("hostile", CLOSURES.values(), ids=list(CLOSURES))
def test_a_profile_outlives_a_hostile_object_as_closure(hostile):
    namespace = {"__name__": "__main__"}
    exec(f"{SETUP}{CLOSURE}{hostile}{OBJECTS}", namespace)
    for _ in range(2):
        exec(WITH_CLOSURE, namespace)
    namespace["Hostile"].is_armed = True
    workbench = Workbench(namespace, spare_workers=0)
    assert check(workbench, workbench.profile(WITH_CLOSURE, steps=1)) == []
    workbench.close()


PLAIN = {
    "a dict": ("""
        class Odd(dict):
            def values(self): raise LookupError("no values")
        argument = Odd(a=1)
        """, ""),
    "a list": ("""
        class Odd(list):
            def __iter__(self): raise ValueError("no items\\n\\nat all")
        argument = Odd([1])
        """, ""),
    "an error without words": ("""
        class Speechless(Exception):
            def __str__(self): raise LookupError
        class Odd(dict):
            def values(self): raise Speechless
        argument = Odd(a=1)
        """, ""),
    "a class that hides its bases": ("""
        class Hiding(type):
            def __getattribute__(self, name):
                if name in ("__mro__", "__module__", "__dict__"):
                    raise LookupError(name)
                return super().__getattribute__(name)
        class Odd(metaclass=Hiding):
            pass
        argument = Odd()
        """, ""),
    "a module that loads what it is asked for": ("""
        import types
        class Lazy(types.ModuleType):
            def __getattr__(self, name): raise LookupError(name)
        argument = Lazy("lazy")
        """, ""),
    "a model that is no part of the training": ("""
        argument = nn.Linear(2, 2)
        argument.__dict__["_modules"] = ["weight"]
        """, ""),
}  # fmt: skip


@pytest.mark.parametrize(("made", "said"), PLAIN.values(), ids=list(PLAIN))
def test_a_variable_that_cannot_be_looked_through_costs_a_line(made, said):
    namespace = {"__name__": "__main__"}
    exec(SETUP + OBJECTS + textwrap.dedent(made), namespace)
    exec(CELL, namespace)
    workbench = Workbench(namespace, spare_workers=0)
    left_out = check(workbench, workbench.profile(CELL, steps=1))
    assert left_out == ([said] if said else [])
    workbench.close()


REFUSING = """
class Model(Model):
    refuses = False
    def parameters(self, recurse=True):
        if self.refuses:
            raise LookupError("no parameters")
        return super().parameters(recurse)
"""


@pytest.fixture
def with_a_kept_plan():
    """A workbench that keeps a plan, on a model that can refuse to give its parameters."""
    namespace = {"__name__": "__main__"}
    exec(SETUP + REFUSING + OBJECTS, namespace)
    workbench = Workbench(namespace, spare_workers=0)
    workbench.profile(CELL, steps=1)
    workbench.keep("fused_optimizer")
    live = workbench.live
    exec(CELL, namespace)
    yield workbench
    namespace["Model"].refuses = False
    live.undo()  # what could not be undone would stay for other tests
    workbench.close()


@pytest.mark.parametrize("refuses", [False, True])
def test_what_is_kept_is_forgotten_also_where_undoing_it_fails(with_a_kept_plan, refuses):
    with_a_kept_plan.namespace["Model"].refuses = refuses
    with_a_kept_plan.forget_what_is_kept()
    assert not with_a_kept_plan.kept


def test_a_kept_plan_that_cannot_be_undone_costs_a_line_and_not_the_profile_of_another_cell(
    with_a_kept_plan,
):
    with_a_kept_plan.namespace["Model"].refuses = True
    profile = with_a_kept_plan.profile(CELL.replace("range(2)", "range(3)"), steps=1)
    assert with_a_kept_plan.profile_result is profile
    assert (with_a_kept_plan.workload.steps, str(with_a_kept_plan.kept)) == (18, "baseline")
    (note,) = [note for note in profile.notes if "kept plan" in note]
    assert "LookupError: no parameters" in note
    assert "Parts of the plan may still be in effect" in note


TRAINERS = {
    "lists of names": "self._modules, self._criteria, self._optimizers = ['module'], ['criterion'], ['optimizer']",
    "a list of models": "self._modules = [nn.Linear(1, 1)]",
    "an attribute dict": "self._modules = Attributes(module='net')",
}


@pytest.mark.parametrize("kept", TRAINERS.values(), ids=list(TRAINERS))
def test_a_trainer_that_keeps_something_of_its_own_in_modules_is_profiled(kept):
    """skorch's NeuralNet keeps the names of its modules there."""
    setup = f"""
        class Attributes(dict):
            def __getattr__(self, name): return self[name]
            def get(self, name): return self[name]
        class Trainer:
            def __init__(self):
                {kept}
                self.module_, self.criterion_ = nn.Linear(4, 2), nn.CrossEntropyLoss()
                self.optimizer_ = torch.optim.SGD(self.module_.parameters(), lr=0.1)
            def fit(self, batches):
                for x, y in batches:
                    self.optimizer_.zero_grad()
                    self.criterion_(self.module_(x), y).backward()
                    self.optimizer_.step()
        net, batches = Trainer(), DataLoader(Digits(), batch_size=4)
        """
    namespace = {"__name__": "__main__"}
    exec(SETUP + textwrap.dedent(setup), namespace)
    workbench = Workbench(namespace, spare_workers=0)
    profile = workbench.profile("net.fit(batches)", steps=1)
    assert workbench.workload.objects().models == {"net.module_": namespace["net"].module_}
    assert workbench.workload.objects().optimizers == {"net.optimizer_": namespace["net"].optimizer_}
    assert not any(map(LEFT_OUT.fullmatch, profile.notes))
    assert workbench.findings().rows == profile.findings
    assert workbench.profile("net.fit(batches)", steps=1).steps
    assert "net.module_" in workbench.status().workload
    workbench.close()

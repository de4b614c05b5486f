"""Which earlier cells may have changed what a training uses: measured on cells that ran, with real modules and tensors."""

from __future__ import annotations

import pytest
import torch

from accel.exporting.shared_parts import Parts
from accel.exporting.whole_script import needed_cells

IMPORTS = "import copy, os, random\nfrom os import environ\nimport torch\nfrom torch import nn"
START = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.drop, self.head = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), nn.Dropout(), nn.Linear(4, 2)
    def forward(self, x):
        return self.head(self.drop(self.body(x)))
class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.images, self.targets = torch.randn(8, 4), [0, 1] * 4
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return self.images[i] * 2, self.targets[i]
model, other, data, FREEZE = Net(), Net(), Data(), True
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
"""
TRAINING = """
losses = []
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def taken(*cells, before=()):
    """Of these cells, those that the program takes, when they ran between the start and the training."""
    namespace = {"__name__": "__main__"}
    history = [IMPORTS, START, *before, *cells, TRAINING]
    for cell in history:
        exec(cell, namespace)
    found = needed_cells([*history[:-1]], TRAINING, namespace).cells
    return [cell for cell in cells if cell in found]


CHANGES = {
    "a loop under a condition": "if FREEZE:\n    for p in model.body.parameters():\n        p.requires_grad = False",
    "a comprehension": "[p.mul_(0.5) for p in map(torch.Tensor.detach, model.parameters())]",
    "a comprehension of calls": "[p.requires_grad_(False) for p in model.body.parameters()]",
    "setattr in a comprehension": "[setattr(p, 'requires_grad', False) for p in model.body.parameters()]",
    "counted changes": "n = len([p.requires_grad_(False) for p in model.body.parameters()])",
    "a loop within try": "try:\n    for p in model.body.parameters():\n        p.requires_grad = False\nfinally:\n    pass",
    "a loop in a loop": "for m in model.children():\n    for p in m.parameters():\n        p.data *= 2",
    "in place in a loop": "for v in model.state_dict().values():\n    v *= 0.9",
    "rows in place": "for row in data.images:\n    row /= 2",
    "an alias of a part": "body = model.body\nfor p in body.parameters():\n    p.requires_grad = False",
    "an alias of the whole": "net = model\nnet.drop = nn.Identity()",
    "an alias by getattr": "head = getattr(model, 'head')\nhead.reset_parameters()",
    "two aliases": "w, b = model.head.weight, model.head.bias\nnn.init.zeros_(b)",
    "a group of the optimizer": "group = optimizer.param_groups[0]\ngroup['lr'] = 0.01",
    "a list of the data": "targets = data.targets\ntargets[0] = 1",
    "a view of the data": "flat = data.images.view(-1)\nflat.sub_(flat.mean())",
    "an array of the data": "array = data.images.numpy()\narray[0] = 0.0",
    "modules in a list": "drops = [m for m in model.modules() if isinstance(m, nn.Dropout)]\nfor m in drops:\n    m.p = 0.1",
    "summed lists": "params = sum([list(b.parameters()) for b in model.body], [])\nfor p in params:\n    p.data.mul_(0.5)",
    "a name that means something else later": "q = list(model.parameters())\nfor p in q:\n    p.data.mul_(0.5)\nq = p = 0",
    "a hook by a decorator": "@model.register_forward_pre_hook\ndef scale(module, inputs):\n    return (inputs[0] / 2,)",
    "a batch that is looked at": "for x, y in loader:\n    print(x.shape)\n    break",
    "a batch in a comprehension": "shapes = [x.shape for x, _ in loader]",
    "all batches in a list": "first = list(loader)[0]",
    "a variable called step": "torch.manual_seed(0)\nstep = 0",
    "a setting of torch": "torch.backends.cuda.enable_flash_sdp(False)",
    "the environment": "environ['SOME_SETTING_OF_THE_TEST'] = '1'",
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_cell_that_changes_what_is_trained_is_taken(change):
    assert taken(change) == [change]


IN_TWO = {
    "parameters in a list": ("params = list(model.body.parameters())", "for p in params:\n    p.requires_grad = False"),
    "a state": ("weights = model.state_dict()", "weights['head.weight'].zero_()"),
    "an object that holds the model": (
        "class Tuner:\n    def __init__(self, of):\n        self.of = of\n    def freeze(self):\n"
        "        self.of.body.requires_grad_(False)\ntuner = Tuner(model)", "tuner.freeze()",
    ),
    "a function of globals": ("def freeze():\n    for p in model.parameters():\n        p.data *= 0.5", "freeze()"),
    "a function of a function": (
        "def load():\n    model.load_state_dict(other.state_dict())\ndef start():\n    load()", "start()",
    ),
    "a registry": ("KNOWN = {}\ndef register(c):\n    KNOWN[c.__name__] = c\n    return c\nmodel.known = KNOWN",
                   "@register\nclass Tiny(nn.Module):\n    pass"),
}  # fmt: skip


@pytest.mark.parametrize("cells", IN_TWO.values(), ids=IN_TWO)
def test_a_change_through_what_an_earlier_cell_made_is_taken_with_that_cell(cells):
    assert taken(*cells) == [*cells]


@pytest.mark.parametrize("cell", [
    "image, label = data[0]\nprint(image.view(2, 2).tolist())",
    "names = [name for name, _ in model.named_parameters()]\nnames.append('x')", "other.head.reset_parameters()",
    "norms = [p.norm() for p in model.parameters()]", "n = model.head.in_features\nprint(n)",
    "class Step:\n    def __init__(self):\n        self.step = 1",
])  # fmt: skip
def test_a_cell_that_changes_nothing_of_it_is_left_out(cell):
    assert taken(cell) == []


def test_a_cell_that_shows_what_only_training_gives_is_left_out():
    class Axes:
        def set_title(self, title):
            return title

    namespace = {"__name__": "__main__", "Axes": Axes}
    show = "axes = Axes()\naxes.set_title(str(losses))\nmodel.shown = losses"
    history = [IMPORTS, START, TRAINING, show]
    for cell in history:
        exec(cell, namespace)
    found = needed_cells([*history, "other.seen = str(losses)", TRAINING], TRAINING, namespace)
    assert found.cells == (IMPORTS, START.strip())
    assert found.touching == ("axes = Axes()",), (
        "the one that changes the model; the other shows what a run before gave"
    )


def test_weights_of_a_model_whose_forward_counts_steps_are_loaded():
    start = START.replace(
        "return self.head", "for step in range(1):\n            pass\n        return self.head"
    )
    namespace = {"__name__": "__main__"}
    load = "model.load_state_dict(other.state_dict())"
    for cell in (IMPORTS, start, load, TRAINING):
        exec(cell, namespace)
    assert load in needed_cells([IMPORTS, start, load], TRAINING, namespace).cells


def test_a_library_that_is_imported_for_what_importing_it_does_is_imported(monkeypatch, tmp_path):
    (tmp_path / "a_registry_of_models.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert taken("import a_registry_of_models", "import IPython") == ["import a_registry_of_models"]


def test_what_two_objects_only_use_is_no_part_of_either():
    transform = torch.nn.Sequential(torch.nn.Flatten())
    one, other = (
        {"transform": transform, "data": torch.ones(3)},
        {"transform": transform, "data": torch.ones(3)},
    )
    assert not Parts(one).are_shared_with(Parts(other))
    assert Parts(one["data"][1:]).are_shared_with(Parts(one))
    assert Parts({"inside": one}).are_shared_with(Parts(one))

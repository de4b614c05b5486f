# ruff: noqa: E501  (cells in a table)
"""Notebooks of many shapes as programs: a fresh process trains what the notebook did, two ranks what `%%accel ddp` did."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.cells.notebook import a_notebook
from tests.cells.plain_process import numbers_of
from tests.exporting.fresh_programs import FreshPrograms

from accel.errors import AccelError

IMPORTS = """
import torch
from torch import nn
from torch.utils.data import *
import torch.nn.functional as F
torch.manual_seed(3)
"""
DATA = "x = torch.randn(46, 6)\ny = torch.randint(3, (46,))\nloader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)"
MODEL = "model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 3))\nopt = torch.optim.SGD(model.parameters(), 0.05)"
STEP = "opt.zero_grad(); loss = F.cross_entropy(model(a), b); loss.backward(); opt.step()"
TRAIN = f"for epoch in range(2):\n    for a, b in loader:\n        {STEP}"


@dataclass(frozen=True)
class Notebook:
    """Its cells, the last of which trains; `names` of what is compared."""

    cells: tuple[str, ...]
    names: str = "model"
    near: float = 0.0  # of ranks


NOTEBOOKS = {
    "dropout and a smaller last batch": Notebook((IMPORTS, DATA, "print('hi')", MODEL, TRAIN)),
    # 47 ones in ten batches of the notebook; validation is whole on every rank
    "a weighted sampler, loaders of a function, validation, attributes": Notebook((
        IMPORTS,
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos_emb, self.norm, self.head = nn.Parameter(torch.randn(6)), nn.BatchNorm1d(6), nn.Linear(6, 2)
    def forward(self, x):
        return self.head(self.norm(x + self.pos_emb))
""",
        """
def loaders_of(n, size=10):
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(n, 6, generator=g), (torch.arange(n) % 10 == 0).long()
    sampler = WeightedRandomSampler(torch.where(y == 1, 9.0, 1.0), n, generator=g)
    return DataLoader(TensorDataset(x, y), batch_size=size, sampler=sampler), DataLoader(TensorDataset(x[:20], y[:20]), batch_size=7)
""",
        "model = Net()\nloaders = loaders_of(94)\nopt = torch.optim.Adam(model.parameters(), 0.01)\nones, right = [], []",
        f"""
for epoch in range(2):
    model.train()
    for a, b in loaders[0]:
        ones.append(int(b.sum()))
        model.pos_emb.data.clamp_(-3, 3)
        {STEP}
    model.eval()
    with torch.no_grad():
        right.append(sum(int((model(a).argmax(1) == b).sum()) for a, b in loaders[1]))
""",
    ), names="model, ones, right"),
    "scopes of every kind, in any order": Notebook((
        IMPORTS,
        "import os, tempfile\nfrom math import *\nwith open(tempfile.mkstemp()[1], 'w+') as fh:\n    fh.write('abc')\n    vocab = 'abc'",
        "if len(vocab) > 9:\n    width = 4\nelif len(vocab) > 2:\n    width = 6\ntry:\n    import nothing_there\nexcept ImportError as why:\n"
        "    hidden = int(sqrt(width * 24))\nmatch vocab:\n    case 'abc':\n        rate = 0.05\n    case other:\n        rate = 0.0",
        "def setup(lr, *, scale=(lambda q: q * 1.0)(2)):\n    global model, opt\n"
        "    model = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 3))\n"
        "    opt = torch.optim.SGD(model.parameters(), lr=scale * lr)",
        "def train(loader, epochs, history=[]):\n    total = 0\n    def count():\n        nonlocal total\n        total += 1\n"
        "    for epoch in range(epochs):\n        for a, b in loader:\n            step(a, b)\n            count()\n    return total",
        "display(width)\nsetup(rate)",
        f"def step(a, b):\n    {STEP}",
        "x, y = torch.randn(40, width), torch.randint(3, (40,))\n"
        "for size in (4, 8): loader = DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True)",
        "steps = train(loader, 2)",
    )),
    "changes in place, looks, lines for IPython": Notebook((
        IMPORTS, DATA, "model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 5))",
        "for p in model.parameters():\n    p.requires_grad = False", "model[2] = nn.Linear(8, 3)",
        "def ones(m):\n    if isinstance(m, nn.Linear): nn.init.ones_(m.bias)\nmodel.apply(ones);",
        "xb, yb = next(iter(loader)); print(xb.shape)", "!true\nimport os\nos.environ['EPOCHS'] = '2'",
        "%time opt = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 0.01)",
        "if 'google.colab' in str(get_ipython()):\n    !pip install nothing\nEPOCHS = int(os.environ['EPOCHS'])", "%env A=1",
        TRAIN.replace("range(2)", "range(EPOCHS)"),
    )),
    "an averaged model, a batch sampler, workers": Notebook((
        IMPORTS, DATA, "def start(worker):\n    torch.manual_seed(worker)", MODEL,
        "loader = DataLoader(loader.dataset, batch_sampler=BatchSampler(RandomSampler(range(46)), 9, False), num_workers=1,\n"
        "                    persistent_workers=True, prefetch_factor=3, worker_init_fn=start)",
        "average = torch.optim.swa_utils.AveragedModel(model)", TRAIN + "\n    average.update_parameters(model)",
    ), names="model, average"),
    "accumulation, a clipped norm, a generator, a class with state": Notebook((
        IMPORTS, DATA, MODEL,
        "import functools, dataclasses\nbase = 3\nbase += 2\ndef twice(f):\n    @functools.wraps(f)\n    def both(*a, **k):\n"
        "        return f(*a, **k) * factor\n    return both\nfactor = 2",
        "@dataclasses.dataclass\nclass Settings:\n    every: int = base - 3\n    sizes: tuple = tuple(s * base for s in (1, 2))\ns = Settings()",
        "class Rows(Dataset):\n    def __len__(self): return 40\n    @twice\n    def get(self, i): return x[i]\n"
        "    def __getitem__(self, i): return self.get(i), y[i]\nloader = DataLoader(Rows(), batch_size=s.sizes[0], shuffle=True,\n"
        "    generator=torch.Generator().manual_seed(5), drop_last=True)\ndel base",
        "class Learner:\n    def __init__(self, net): self.net = net\n    def fit(self, it):\n        for n, (a, b) in enumerate(it):\n"
        "            (F.cross_entropy(self.net(a), b) / s.every).backward()\n            if n % s.every:\n"
        "                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)\n                opt.step(); opt.zero_grad()",
        "learner = Learner(model)\nlearner.fit(loader)",
    ), near=1e-7),
    "a library and a class that cells add to": Notebook((
        IMPORTS, DATA, "class Net(nn.Sequential):\n    scale = 1.0",
        "def doubled(t): return 2 * t\ndef add_to_library():\n    nn.functional.doubled_here = doubled", "add_to_library()",
        "def add_to(cls):\n    def add(f):\n        setattr(cls, f.__name__, f)\n        return f\n    return add",
        "@add_to(Net)\ndef loss_of(self, a, b): return F.cross_entropy(F.doubled_here(self(a)) * self.scale, b)", "Net.scale = 0.5",
        "model = Net(nn.Linear(6, 3))\nopt = torch.optim.SGD(model.parameters(), 0.05)",
        "Net.forward = lambda self, x: self[0](x) + 1.0", TRAIN.replace("F.cross_entropy(model(a), b)", "model.loss_of(a, b)"),
    )),
    "a stream of samples and parameters of no module": Notebook((
        IMPORTS, "w = torch.randn(6, 3, requires_grad=True)\nopt = torch.optim.Adam([w], 0.01)",
        "class Stream(IterableDataset):\n    def __iter__(self):\n        for i in range(50): yield torch.randn(6) + i % 3, i % 3\n"
        "loader = DataLoader(Stream(), batch_size=6)\nscaler = torch.amp.GradScaler('cpu')",
        "for a, b in loader:\n    opt.zero_grad()\n    with torch.autocast('cpu', dtype=torch.bfloat16):\n        loss = F.cross_entropy(a @ w, b)\n"
        "    scaler.scale(loss).backward(); scaler.step(opt); scaler.update()",
    ), names="w"),
    "seeds by a function and in the cell, an evaluation that draws": Notebook((
        IMPORTS, "import random, numpy as np\ndef seeds(s):\n    random.seed(s); np.random.seed(s); torch.manual_seed(s)", "seeds(11)",
        DATA, "tokens = torch.tensor([random.choice(range(5)) for _ in range(46)])",
        "model = nn.Sequential(nn.Embedding(5, 6), nn.Dropout(0.2), nn.Linear(6, 3))\nopt = torch.optim.Adam(model.parameters())",
        "loader = DataLoader(TensorDataset(tokens, y), batch_size=8, shuffle=True)\ncheck = DataLoader(TensorDataset(tokens), 8, shuffle=True)",
        "for epoch in range(2):\n    torch.manual_seed(epoch)\n    for a, b in loader:\n        " + STEP + "\n"
        "    with torch.no_grad():\n        first = next(iter(check))[0]",
    ), names="model, first"),
}  # fmt: skip


@pytest.fixture(scope="module")
def shell() -> Iterator[object]:
    with a_notebook() as notebook:
        yield notebook


@pytest.fixture(scope="module")
def programs() -> Iterator[FreshPrograms]:
    with FreshPrograms() as each:
        yield each


def trained(shell, notebook: Notebook, over: str = "%%accel profile") -> list[list[float]]:
    shell.begin()
    for cell in notebook.cells[:-1]:
        shell.run(cell)
    shell.run(f"{over}\n{notebook.cells[-1]}")
    return numbers_of(shell.names, notebook.names)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_program_trains_what_the_notebook_did_and_ranks_what_accel_ddp_did(shell, programs, name):
    notebook = NOTEBOOKS[name]
    here = trained(shell, notebook)
    script, ranks = shell.run("%accel export --to script"), shell.run("%accel export --to torchrun -n 2")
    assert "accel" not in script.code
    assert "import accel" not in ranks.program
    assert programs.run(script.code, notebook.names) == [here]
    one, _ = programs.run(ranks.program, notebook.names, ranks=2)
    together = trained(shell, notebook, "%%accel ddp -n 2")
    for numbers, truth in zip(one, together, strict=True):
        assert numbers == pytest.approx(truth, rel=0, abs=notebook.near)


def test_other_trainings_of_the_same_objects_are_left_out_and_named(shell, programs):
    other = (
        "total = 0.0\nfor a, b in loader:\n    "
        + STEP.replace("(a), b)", "(a), b, reduction='sum')")
        + "\n    total += loss.item()"
    )
    mine = other.replace(", reduction='sum'", "")
    trained(shell, Notebook((IMPORTS, DATA, MODEL, f"# too far\n{other}", mine)))
    made = shell.run("%accel export --to script")
    assert "reduction" not in made.code
    assert any("use training results: # too far." in note for note in made.notes)
    programs.run(made.code, "model, total")


def test_gradients_that_the_cell_takes_itself_are_means_over_ranks(shell, programs):
    """As one process that takes the batches of both."""
    by_hand = "ps = list(model.parameters()); [p.data.sub_(0.1 * g) for p, g in zip(ps, torch.autograd.grad(F.cross_entropy(model(a), b), ps))]"
    earlier = (IMPORTS, DATA, "model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))")
    trained(shell, Notebook((*earlier, f"for a, b in loader:\n    {by_hand}")))
    one, _ = programs.run(shell.run("%accel export --to torchrun").program, "model", ranks=2)
    pairs = f"batches = list(loader)\nfor pair in zip(batches[::2], batches[1::2]):\n    a, b = map(torch.cat, zip(*pair))\n    {by_hand}"
    (truth,) = programs.run("\n".join((*earlier, pairs)), "model")
    for numbers, wanted in zip(one, truth, strict=True):
        assert numbers == pytest.approx(wanted, rel=0, abs=1e-7)


def test_a_kept_plan_is_written_in_and_the_summary_says_what_is_not(shell, programs):
    notebook = Notebook((IMPORTS, DATA, MODEL, "def fit():\n    own = torch.optim.Adam(model.parameters())\n"
                         "    for a, b in loader:\n        own.zero_grad(); F.cross_entropy(model(a), b).backward(); own.step()", "fit()"))  # fmt: skip
    trained(shell, notebook)
    shell.run("%accel keep fused_optimizer")
    made = shell.run("%accel export --to script")
    export = shell.run("%accel export")
    assert export.is_complete == ("It trains with fused_optimizer." in made.notes)
    programs.run(made.code, "model")


@pytest.mark.parametrize(("cells", "reason"), [
    ((IMPORTS, DATA, MODEL, f"for n in range(3):\n    a, b = x, y\n    {STEP}"), "No DataLoader was seen"),
    ((IMPORTS, DATA, MODEL, "import asyncio\nasync def fit():\n    " + TRAIN.replace("\n", "\n    ") + "\nawait fit()"), "'await' outside"),
])  # fmt: skip
def test_what_would_not_train_right_is_refused_with_the_reason(shell, cells, reason):
    trained(shell, Notebook(cells))
    with pytest.raises(AccelError, match=reason):
        shell.run("%accel export --to torchrun")


@pytest.mark.parametrize(("cell", "reason"), [
    (f"model.eval()\n{TRAIN}", "Call model.train\\(\\) before the loop"),
    (f"{TRAIN}\nright = 0\nfor a, b in loader:\n    right += int((model(a).argmax(1) == b).sum())", "No backward pass was seen"),
])  # fmt: skip
def test_ranks_stop_where_they_would_train_or_count_something_else(shell, programs, cell, reason):
    trained(shell, Notebook((IMPORTS, DATA, MODEL, cell)))
    with pytest.raises(RuntimeError, match=reason):
        programs.run(shell.run("%accel export --to torchrun").program, "model", ranks=2)


@pytest.mark.fresh_interpreters
def test_torchrun_starts_it(shell, tmp_path):
    trained(
        shell,
        Notebook(
            (
                IMPORTS,
                "words = list({'a', 'b', 'c', 'd', 'e', 'f'})",
                DATA,
                MODEL,
                TRAIN + "\nprint('final', words, float(loss) > 0)",
            )
        ),
    )
    _, script = shell.run("%accel export --to torchrun -n 2").save(tmp_path / "job")
    variables = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHASHSEED")
    }
    variables["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    done = subprocess.run(["bash", str(script)], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(orders := re.findall(r"\['.*?'\]", done.stdout)) == 2  # ranks may write into one line
    assert orders[0] == orders[1]

"""Running the exported code gives, bit for bit, the losses and weights that the cell gives under the live plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from notebook import OBJECTS, SETUP, Notebook, parameters
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from accel.accelerations.steady_allocator import fix_thresholds

LOOP = """
for epoch in range(2):
    for images, labels in loader:
        optimizer.zero_grad()
        output = model(images)
        loss = criterion(output, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
NESTED = LOOP.replace("output = model(images)\n", "pass\n").replace(
    "criterion(output,", "criterion(model(images),"
)
TRAIN = """
def train(model, loader, criterion, optimizer):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
TRAIN_GLOBALS = TRAIN.replace("def train(model, loader, criterion, optimizer):", "def train():")
BUILDS = f"""import torch
from torch.utils.data import DataLoader

model = Net()
optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=1e-2,  # found by hand
)
loader = DataLoader(data, batch_size=4, shuffle=True)
{LOOP}"""
BUILDS_ON_ONE_LINE = (
    "model = Net(); optimizer = torch.optim.SGD(model.parameters(), 1e-2, 0.9)  # both\n" + LOOP
)
ODD = """\
%matplotlib inline

\"\"\"My training.\"\"\"
epochs=2;   verbose = False   # two is enough


for   epoch in range( epochs ) :
  for (images ,
       labels) in loader: # batches
    optimizer.zero_grad( set_to_none = True ) ;

    # the forward pass
    output = model(
        images,      # all of them
    )
    loss = criterion(output,labels) ; loss.backward()
    optimizer.step()
    losses.append( loss.item() )
    if verbose: print( loss )
"""
GAN = """
for images, _ in loader:
    noise = torch.randn(len(images), 8)
    fake = generator(noise)
    d_optimizer.zero_grad()
    d_loss = criterion(judge(images), torch.zeros(len(images)).long()) + \\
             criterion(judge(fake.detach()), torch.ones(len(images)).long())
    d_loss.backward()
    d_optimizer.step()
    g_optimizer.zero_grad()
    g_loss = criterion(judge(fake), torch.zeros(len(images)).long())
    g_loss.backward()
    g_optimizer.step()
    losses += [d_loss.item(), g_loss.item()]
"""
GAN_OBJECTS = """
class Draw(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(8, 64)
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
    def forward(self, x):
        return self.conv(self.wide(x).reshape(-1, 1, 8, 8))

generator, judge = Draw(), Net()
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-2)
d_optimizer = torch.optim.Adam(judge.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
"""
WARMED_UP = (
    OBJECTS
    + """
for images, labels in loader:
    criterion(model(images), labels).backward()
    optimizer.step()
"""
)
RETURNS_DICT = SETUP.replace("return self.head(torch.relu(self.conv(x)).flatten(1))",
                             "return {'logits': self.head(torch.relu(self.conv(x)).flatten(1))}") + OBJECTS  # fmt: skip
TRAINER = (
    SETUP
    + OBJECTS
    + """
class Trainer:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer
    def step(self, images, labels):
        self.optimizer.zero_grad()
        loss = criterion(self.net(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

trainer = Trainer(model, optimizer)
"""
)
TRAINER_CELL = """
for images, labels in loader:
    output = model(images)
    losses.append(trainer.step(images, labels) + output.sum().item())
"""

NOTEBOOKS = {
    "explicit loop": Notebook(LOOP),
    "nested call": Notebook(NESTED),
    "train() of an earlier cell": Notebook(
        "train(model, loader, criterion, optimizer)", earlier=SETUP + OBJECTS + TRAIN
    ),
    "train() that reads globals": Notebook("# go\ntrain()  # now", earlier=SETUP + OBJECTS + TRAIN_GLOBALS),
    "cell that builds everything": Notebook(BUILDS, earlier=SETUP, built=("model", "optimizer", "loader")),
    "cell that builds on one line": Notebook(BUILDS_ON_ONE_LINE, built=("model", "optimizer")),
    "odd formatting": Notebook(ODD),
    "optimizer with state": Notebook(LOOP, earlier=SETUP + WARMED_UP),
    "model that returns a dict": Notebook(
        LOOP.replace("criterion(output,", "criterion(output['logits'],"), earlier=RETURNS_DICT
    ),
    "trainer object beside a direct call": Notebook(TRAINER_CELL, earlier=TRAINER),
    "function defined in the cell": Notebook(TRAIN + "\ntrain(model, loader, criterion, optimizer)\n"),
    "two models": Notebook(
        GAN,
        earlier=SETUP + GAN_OBJECTS,
        roles={
            "models": ["generator", "judge"],
            "optimizers": ["d_optimizer", "g_optimizer"],
            "loaders": ["loader"],
        },
    ),
}
PLANS = [
    "channels_last",
    "autocast",
    'autocast(dtype="fp16")',
    "fused_optimizer",
    "intraop_threads(n=1)",
    "steady_allocator",
    "loader_workers(n=1)",
    "channels_last+autocast+fused_optimizer",
    'channels_last+autocast(dtype="fp16")+fused_optimizer',
]


def assert_same(notebook: Notebook, plan: str) -> None:
    export = notebook.export(plan)
    assert export.notes == ()
    assert "accel" not in export.code
    live, plain = notebook.run_live(plan), notebook.run_plain(export.code)
    assert live["losses"] == plain["losses"]
    assert len(live["losses"]) >= 4
    for name in notebook.roles["models"]:
        for mine, theirs in zip(parameters(plain, name), parameters(live, name), strict=True):
            assert torch.equal(mine, theirs)


@pytest.fixture(autouse=True)
def one_thread_and_the_process_as_it_was() -> object:
    """Exported code has no undo: what it puts into torch and malloc must not reach the next test."""
    before, backward = torch.get_num_threads(), torch.autograd.backward
    hooks = [(each, dict(each)) for each in (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)]
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.autograd.backward = backward
    for each, known in hooks:
        each.clear()
        each.update(known)
    fix_thresholds()


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("shape", NOTEBOOKS)
def test_export_equals_the_live_plan(shape: str, plan: str) -> None:
    assert_same(NOTEBOOKS[shape], plan)


@pytest.mark.compiles
@pytest.mark.parametrize("shape", ["explicit loop", "nested call", "cell that builds everything"])
def test_with_a_compiled_model_too(shape: str) -> None:
    assert_same(NOTEBOOKS[shape], "compile_model+channels_last+autocast+fused_optimizer")


@pytest.mark.compiles
def test_compile_alone() -> None:
    assert_same(NOTEBOOKS["explicit loop"], "compile_model")


WITH_CRITERION = {
    "models": ["model"],
    "criteria": ["criterion"],
    "optimizers": ["optimizer"],
    "loaders": ["loader"],
}


@pytest.mark.parametrize("shape", ["explicit loop", "optimizer with state"])
@pytest.mark.parametrize(
    "plan", ['compile_optimizer(backend="aot_eager")', 'compile_model(backend="aot_eager", scope="step")']
)
def test_compiled_steps_of_an_optimizer_and_a_criterion(shape: str, plan: str) -> None:
    notebook = replace(NOTEBOOKS[shape], roles=WITH_CRITERION)
    assert_same(notebook, plan)
    code = notebook.export(plan).code
    assert 'torch.compile(_inspect.unwrap(type(optimizer).step), backend="aot_eager")' in code
    assert ('criterion.compile(backend="aot_eager")' in code) == ("scope" in plan)


def test_an_optimizer_that_the_cell_builds_is_found_in_its_first_step_and_compiled_from_the_second_on() -> (
    None
):
    notebook, plan = NOTEBOOKS["cell that builds everything"], 'compile_optimizer(backend="aot_eager")'
    live, plain = notebook.run_live(plan), notebook.run_plain(notebook.export(plan).code)
    assert live["losses"] == pytest.approx(plain["losses"], rel=1e-4)
    assert "step" in vars(plain["optimizer"])


def test_workers_that_stay_keep_the_order_of_the_samples() -> None:
    assert_same(NOTEBOOKS["cell that builds everything"], "loader_workers(n=1, persistent=True)")


@pytest.mark.parametrize("shape", NOTEBOOKS)
def test_the_plan_makes_a_difference_that_the_comparison_would_see(shape: str) -> None:
    notebook = NOTEBOOKS[shape]
    export = notebook.export("autocast")
    assert notebook.run_plain(export.code)["losses"] != notebook.run_plain(notebook.cell)["losses"]

# ruff: noqa: E501  (cells in a table)
"""The first step of ranks is compared with one process's: what differs is found without a rule for it, and what is exact passes."""

from __future__ import annotations

import pytest

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.first_step.recorded_step import RecordedStep
from accel.distributed.first_step.verdict import compared
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError
from tests.distributed.cells import TRAIN, alone, difference, on_ranks

LOSS = "criterion(model(inputs), labels)"
WITH_NOISE = "model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.Linear(8, 3)).double()\noptimizer = torch.optim.Adam(model.parameters())\n"
PADDED = "y[:8] = -100\nloader = DataLoader(TensorDataset(x, y), batch_size=24)\n"
AUGMENTED = """
import random
class Noisy(Dataset):
    def __len__(self):
        return 50
    def __getitem__(self, index):
        return x[index] * random.uniform(0.5, 1.5) + torch.randn(6), y[index]
loader = DataLoader(Noisy(), batch_size=16, shuffle=True)
"""


def with_loss(loss: str) -> str:
    return TRAIN.replace(LOSS, loss)


DIFFER = {
    "ignored targets": (PADDED, TRAIN, "padding"),
    "a mean that the cell masks": (PADDED, with_loss("(F.cross_entropy(model(inputs), labels, reduction='none') * (labels >= 0)).sum() / (labels >= 0).sum()"), "mask"),
    "class weights": ("weight = torch.tensor([1.0, 2.0, 9.0]).double()", with_loss("F.cross_entropy(model(inputs), labels, weight=weight)"), "class weights"),
    "samples that are compared with each other": ("", with_loss("F.cross_entropy(model(inputs) @ model(inputs).T, torch.arange(len(inputs)))"), "samples of the batch with each other"),
    "the hardest samples": ("", with_loss("F.cross_entropy(model(inputs), labels, reduction='none').topk(2)[0].mean()"), "a part of the samples"),
    "overlap of masks": ("", with_loss("1 - 2 * (model(inputs).sigmoid() * F.one_hot(labels, 3)).sum() / (model(inputs).sigmoid().sum() + len(labels))"), "each other"),
    "a sum over a constant": ("", with_loss("F.cross_entropy(model(inputs), labels, reduction='sum') / 16"), "1/2 of those of one process"),
    "a sum in a function, with noise": (WITH_NOISE + "def loss_of(out, labels):\n    return F.cross_entropy(out + torch.randn_like(out), labels, reduction='none').sum()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.01)", with_loss("loss_of(model(inputs), labels)"), "1/2 of those of one process"),
    "loaders with other batch sizes": ("other = DataLoader(TensorDataset(x, y), batch_size=9)", "for (inputs, labels), (more, theirs) in zip(loader, other):\n    optimizer.zero_grad()\n    (criterion(model(inputs), labels) + 5 * criterion(model(more), theirs)).backward()\n    optimizer.step()\n", "batch sizes"),
    "BatchNorm": ("model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)", TRAIN, "--sync-batchnorm"),
    "a variance over the batch": ("", with_loss("(model(inputs).var(0) - 1).square().sum()"), "samples of the batch with each other"),
    "a gradient that the cell changes before it is averaged": ("", "for p in model.parameters():\n    p.register_hook(lambda g: g.sign())\n" + TRAIN, "Likely cause"),
}  # fmt: skip
EQUAL = {
    "a mean": ("", TRAIN),
    "a sum over the number of samples": ("", with_loss("nn.CrossEntropyLoss(reduction='sum')(model(inputs), labels) / len(inputs)")),
    "dropout and Adam": (WITH_NOISE, TRAIN),
    "noise on the inputs, seeded in the cell": ("", with_loss("criterion(model(inputs + torch.randn_like(inputs)), labels)").replace("for epoch", "torch.manual_seed(5)\nfor epoch")),
    "samples that are augmented": (AUGMENTED, TRAIN),
    "dropout in a recurrent network": ("class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.cells, self.out = nn.LSTM(2, 5, 2, dropout=0.5, batch_first=True), nn.Linear(5, 3)\n    def forward(self, x):\n        return self.out(self.cells(x.view(-1, 3, 2))[0][:, -1])\nmodel = Net().double()\noptimizer = torch.optim.Adam(model.parameters())", TRAIN),
    "attention": ("model = nn.Sequential(nn.Unflatten(1, (3, 2)), nn.TransformerEncoderLayer(2, 1, 8, batch_first=True), nn.Flatten(), nn.Linear(6, 3)).double()\noptimizer = torch.optim.AdamW(model.parameters())", TRAIN),
    "low precision": ("model, x = model.float(), x.float()\nloader = DataLoader(TensorDataset(x, y), batch_size=16)", TRAIN.replace("        loss =", "        with torch.autocast('cpu'):\n            loss =")),
    "a closure": ("optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)", "for inputs, labels in loader:\n    def closure():\n        optimizer.zero_grad()\n        loss = criterion(model(inputs), labels)\n        loss.backward()\n        return loss\n    optimizer.step(closure)\n"),
    "a weight that is not finite": ("model.mask = nn.Parameter(torch.tensor([0.0, -torch.inf]))\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)", TRAIN.replace("model(inputs)", "model(inputs) + 0 * model.mask[0]")),
    "batches with tensors that have no bytes of their own": ("def mixed(samples):\n    rows = [row for row, _ in samples]\n    return torch.stack(rows), torch.stack([label for _, label in samples]), torch.ones(2, dtype=torch.complex64).conj(), torch.nested.nested_tensor(rows)\nloader = DataLoader(TensorDataset(x, y), batch_size=16, collate_fn=mixed)", TRAIN.replace("inputs, labels in", "inputs, labels, *_ in")),
    "worker processes": ("loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=2)", TRAIN),
}  # fmt: skip
MEANINGLESS = {
    "numpy in the loop": ("import numpy", with_loss("numpy.random.beta(1.0, 1.0) * criterion(model(inputs), labels)"), "the generator of numpy"),
    "a number for the whole batch": ("", with_loss("torch.rand(()) * criterion(model(inputs), labels)"), "aten.rand"),
    "padding to the longest sample of a rank, with dropout": ("model = nn.Sequential(nn.Linear(1, 8), nn.Dropout(), nn.Linear(8, 3)).double()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nlengths = [*range(1, 49), 2, 3]\ndef padded(samples):\n    rows = [row[:1].expand(n) for n, row, _ in samples]\n    return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.stack([label for _, _, label in samples])\nloader = DataLoader(list(zip(lengths, x, y)), batch_size=16, collate_fn=padded)", with_loss("criterion(model(inputs[..., None]).mean(1), labels)"), "pads its samples"),
    "batches of two samples, with dropout": (WITH_NOISE + "loader = DataLoader(TensorDataset(x, y), batch_size=2)", TRAIN, "which every rank therefore takes whole"),
    "a layer that draws once more on a part of a batch": (WITH_NOISE, with_loss("criterion(model(inputs + (torch.rand_like(inputs[:1]) if len(inputs) < 16 else 0)), labels)"), "draws for the same samples."),
    "a data set with a generator of its own": (AUGMENTED.replace("import random", "import numpy\nown = numpy.random.default_rng(0)").replace("random.uniform", "own.uniform"), TRAIN, "the data set gave other values"),
    "such a data set in workers, as dicts": (AUGMENTED.replace("import random", "import random\nown = random.Random(0)").replace("random.uniform", "own.uniform").replace(" + torch.randn(6)", "").replace("return x[index]", "return {'x': x[index]").replace(", y[index]", ", 'y': [y[index]]}").replace("shuffle=True", "shuffle=True, num_workers=2"), TRAIN.replace("inputs, labels in", "batch in").replace("model(inputs), labels", "model(batch['x']), batch['y'][0]"), "the data set gave other values"),
    "samples that are augmented in workers": (AUGMENTED.replace("shuffle=True", "shuffle=True, num_workers=1"), TRAIN, "worker processes"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFER)
def test_a_step_that_differs_is_found_before_the_run_goes_on(pool: RankPool, name: str) -> None:
    more, cell, cause = DIFFER[name]
    _, result = on_ranks(pool, cell, more)
    assert result.first_step is not None
    assert result.first_step.verdict == "different", result.first_step.line
    assert cause in result.first_step.line
    assert result.first_step.line in result.ranks[0].output  # while it ran


@pytest.mark.parametrize("name", EQUAL)
def test_an_exact_step_is_no_false_alarm(pool: RankPool, name: str) -> None:
    more, cell = EQUAL[name]
    _, result = on_ranks(pool, cell, more, check="strict")  # strict waits longer for the one-process run
    assert result.first_step is not None
    assert result.first_step.verdict == "equal", result.first_step.line
    assert result.first_step.line in str(result)


@pytest.mark.parametrize("name", MEANINGLESS)
def test_draws_that_one_process_cannot_repeat_are_named(pool: RankPool, name: str) -> None:
    more, cell, words = MEANINGLESS[name]
    _, result = on_ranks(pool, cell, more)
    assert result.first_step is not None
    assert result.first_step.verdict == "not checked", result.first_step.line
    assert words in result.first_step.line


def test_strict_stops_with_the_notebook_as_it_was(pool: RankPool) -> None:
    more, cell, _ = DIFFER["a sum over a constant"]
    with pytest.raises(AccelError, match="1/2 of those of one process"):
        on_ranks(pool, cell, more, check="strict")
    _, result = on_ranks(pool, TRAIN, check="strict")
    assert result.first_step is not None
    assert result.first_step.verdict == "equal"


def test_the_check_can_be_left_out_and_needs_one_batch_for_all(pool: RankPool) -> None:
    for options in ({"check": "off"}, {"batch": "per-rank"}):
        assert on_ranks(pool, TRAIN, **options)[1].first_step is None
    with pytest.raises(AccelError, match="Add --batch global"):
        RunOptions(check="strict")


def test_the_one_process_leaves_nothing_and_changes_no_file(pool: RankPool, tmp_path: object) -> None:
    cell = f"open(r'{tmp_path}/log', 'a').write('x')\n{TRAIN}"
    namespace, result = on_ranks(pool, cell)
    assert result.first_step is not None
    assert result.first_step.verdict == "equal"
    assert difference(namespace["model"], alone(cell)["model"]) < 1e-12
    assert len((tmp_path / "log").read_text()) == 3  # type: ignore[operator]  # two ranks, and the process of this test


def test_one_process_that_fails_costs_a_line(pool: RankPool) -> None:
    cell = f"import torch.distributed as dist\nif dist.get_world_size() == 1:\n    raise ValueError('alone')\n{TRAIN}"
    _, result = on_ranks(pool, cell, loaders=("loader",))
    assert result.first_step is not None
    assert "the cell raised ValueError: alone" in result.first_step.line
    killed = cell.replace(
        "raise ValueError('alone')", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    )
    _, result = on_ranks(pool, killed, loaders=("loader",))
    assert result.first_step is not None
    assert "died" in result.first_step.line


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_rounding_that_adam_makes_a_step_of_is_no_difference(scale: float) -> None:
    import torch

    def step(rounding: float) -> RecordedStep:
        p = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.Adam([p], lr=0.1)
        p.grad = torch.tensor([1.0, -2.0, 0.5, rounding]) * scale
        made = RecordedStep()
        made.begins(optimizer)
        optimizer.step()
        made.ends_here()
        return made

    assert compared(step(1e-8), step(-1e-8), world_size=2, normalises_batches=False).verdict == "equal"
    assert compared(step(0.1), step(-0.1), world_size=2, normalises_batches=False).verdict == "different"


def test_what_the_check_compares_is_every_optimizer_of_the_first_turn(pool: RankPool) -> None:
    more = "head = nn.Linear(3, 3).double()\nother = torch.optim.SGD(head.parameters(), lr=0.1)"
    cell = "for inputs, labels in loader:\n    criterion(head(model(inputs)), labels).backward()\n    optimizer.step()\n    for p in head.parameters():\n        p.grad *= torch.distributed.get_world_size()\n    other.step()\n"
    _, result = on_ranks(pool, cell, more, loaders=("loader",))
    assert result.first_step is not None
    assert result.first_step.verdict == "different"

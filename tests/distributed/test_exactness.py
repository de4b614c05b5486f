# ruff: noqa: E501  (cells in a table)
"""A cell on two ranks with --batch global ends with the parameters that it ends with in one process."""

from __future__ import annotations

import pytest

from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import TRAIN, alone, difference, on_ranks

ROUNDING = 1e-12  # in float64: the order of additions differs, nothing else

OTHER = """
other = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
second = torch.optim.SGD(other.parameters(), lr=0.1)
"""

JUDGE = """
history, held_out = [], DataLoader(TensorDataset(x[:30], y[:30]), batch_size=7)
@torch.no_grad()
def judge(a, b):
    return criterion(model(a), b).item()
"""

CASES = {
    "as it is, with an uneven last batch": ("", TRAIN),
    "fewer samples in a batch than ranks": (
        "loader = DataLoader(TensorDataset(x[:33], y[:33]), batch_size=16, shuffle=True)", TRAIN,
    ),
    "several epochs, seeds set in the cell": ("", "torch.manual_seed(3)\n" + TRAIN.replace("range(2)", "range(5)")),
    "a generator of the loader's own": (
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(5))",
        TRAIN,
    ),
    "a sampler": (
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=WeightedRandomSampler(torch.rand(50), 50))", TRAIN,
    ),
    "a batch sampler of the user's": (
        """
class Batches:
    def __iter__(self):
        order = torch.randperm(50).tolist()
        yield from (order[:20], order[20:27], order[27:50])
    def __len__(self):
        return 3
loader = DataLoader(TensorDataset(x, y), batch_sampler=Batches())
""",
        TRAIN,
    ),
    "two worker processes that persist": (
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)", TRAIN,
    ),
    "built in the cell": (
        "",
        """
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).double()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
""" + TRAIN,
    ),
    "in a trainer": (
        """
class Trainer:
    def __init__(self):
        self.net, self.seen = nn.Linear(6, 3).double(), 0
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
    def fit(self, batches):
        for inputs, labels in batches:
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(inputs), labels).backward()
            self.optimizer.step()
            self.seen += 1
trainer = Trainer()
model = trainer.net
""",
        "trainer.fit(loader)\ntrainer.fit(loader)\nsame = [trainer.seen]",
    ),
    "gradients clipped": ("", TRAIN.replace("        optimizer.step", "        nn.utils.clip_grad_norm_(model.parameters(), 0.05)\n        optimizer.step")),
    "a model with parts that are not always used, clipped": (
        """
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 3).double(), nn.Linear(6, 3).double()
        self.never = nn.Linear(6, 3).double()
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        return self.first(x) if self.calls % 3 else self.first(x) + self.second(x)
model = Branches()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
""",
        TRAIN.replace("        optimizer.step", "        nn.utils.clip_grad_norm_(model.parameters(), 0.05)\n        optimizer.step"),
    ),
    "parts called by themselves": (
        "",
        TRAIN.replace("model(inputs)", "model[2](model[1](model[0](inputs)))"),
    ),
    "forward called by its name, clipped": (
        "",
        TRAIN.replace("model(inputs)", "model.forward(inputs)").replace("        optimizer.step", "        nn.utils.clip_grad_norm_(model.parameters(), 0.05)\n        optimizer.step"),
    ),
    "called twice before backward": ("", TRAIN.replace("criterion(model(inputs), labels)", "criterion(model(inputs), labels) + model(inputs * 2).pow(2).mean()")),
    "two backward passes a step": ("", TRAIN.replace("        loss.backward()", "        loss.backward()\n        (0.1 * model(inputs).pow(2).mean()).backward()")),
    "one graph, two backward passes": ("", TRAIN.replace("        loss.backward()", "        loss.backward(retain_graph=True)\n        loss.backward()")),
    "two forward, then two backward": ("", TRAIN.replace("        loss.backward()", "        second = model(inputs).pow(2).mean()\n        loss.backward()\n        second.backward()")),
    "accumulated": (
        "loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)",
        """
for epoch in range(3):
    for number, (inputs, labels) in enumerate(loader):
        (criterion(model(inputs), labels) / 3).backward()
        if (number + 1) % 3 == 0 or number + 1 == len(loader):
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            optimizer.step()
            optimizer.zero_grad()
""",
    ),
    "accumulated by a pattern that breaks, clipped": (
        "loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)\nfrom torch.nn.utils import clip_grad_norm_",
        """
waiting, each = 0, 3
for epoch in range(4):
    for inputs, labels in loader:
        criterion(model(inputs), labels).backward()
        waiting += 1
        if waiting >= each:
            clip_grad_norm_(model.parameters(), 0.05)
            optimizer.step()
            optimizer.zero_grad()
            waiting, each = 0, 2 if epoch > 1 else 3
""",
    ),
    "a schedule": ("scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, epochs=2, steps_per_epoch=len(loader))",
        TRAIN.replace("optimizer.step()", "optimizer.step()\n        scheduler.step()") + "same = [scheduler.get_last_lr()[0], scheduler.last_epoch]"),
    "a schedule made in the cell": ("",
        "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=2 * len(loader))\n" + TRAIN.replace("optimizer.step()", "optimizer.step()\n        scheduler.step()") + "same = [scheduler.get_last_lr()[0], scheduler.last_epoch]"),
    "updated by hand": ("", """
for epoch in range(2):
    for inputs, labels in loader:
        criterion(model(inputs), labels).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
"""),
    "updated by hand, parts called": ("", """
for epoch in range(2):
    for inputs, labels in loader:
        criterion(model[2](model[1](model[0](inputs))), labels).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
"""),
    "parameters of no module, updated by hand": ("w = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)", """
for epoch in range(2):
    for inputs, labels in loader:
        F.cross_entropy(inputs @ w, labels).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
same = [w]
"""),
    "tensors that an object holds, updated by hand": ("", """
class Line:
    def __init__(self):
        self.w = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)
line = Line()
for epoch in range(2):
    for inputs, labels in loader:
        loss = F.cross_entropy(inputs @ line.w, labels)
        with torch.no_grad():
            loss.backward()
            line.w -= 0.1 * line.w.grad
            line.w.grad = None
same = [line.w]
"""),
    "tensors of a function, updated by hand": ("""
def fit():
    w, b = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for epoch in range(2):
        for inputs, labels in loader:
            inputs.requires_grad_(True)
            gradients = torch.autograd.grad(F.cross_entropy(inputs @ w + b, labels), [w, b])
            with torch.no_grad():
                for p, gradient in zip((w, b), gradients):
                    p -= 0.1 * gradient
    return w, b
""", "same = list(fit())\n"),
    "torch.autograd.grad": ("", """
for epoch in range(2):
    for inputs, labels in loader:
        gradients = torch.autograd.grad(criterion(model(inputs), labels), list(model.parameters()))
        with torch.no_grad():
            for p, gradient in zip(model.parameters(), gradients):
                p -= 0.1 * gradient
"""),
    "a gradient penalty": ("", TRAIN.replace("        loss.backward()", """
        inputs.requires_grad_(True)
        gradient, = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
        (loss + (gradient.norm(dim=1) - 1).pow(2).mean()).backward()""")),
    "a criterion with parameters": ("""
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
    def forward(self, out, labels):
        return F.cross_entropy(out * self.scale, labels) + self.scale.pow(2)
criterion = Weighted()
optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.1)
""", TRAIN + "same = [criterion.scale.detach()]"),
    "two models, one optimizer each, detached": ("""
maker = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6)).double()
judge = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double()
of_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
of_judge = torch.optim.Adam(judge.parameters(), lr=0.01)
""", """
for epoch in range(2):
    for real, _ in loader:
        fake = maker(real[:, :4])
        of_judge.zero_grad()
        F.binary_cross_entropy_with_logits(judge(real), torch.ones(len(real), 1).double()).backward()
        F.binary_cross_entropy_with_logits(judge(fake.detach()), torch.zeros(len(real), 1).double()).backward()
        of_judge.step()
        of_maker.zero_grad()
        F.binary_cross_entropy_with_logits(judge(fake), torch.ones(len(real), 1).double()).backward()
        of_maker.step()
same = [p.detach() for p in [*maker.parameters(), *judge.parameters()]]
"""),
    "two optimizers of one model": ("""
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.Adam(model[2].parameters(), lr=0.01)
""", TRAIN.replace("optimizer.zero_grad", "model.zero_grad").replace("optimizer.step()", "first.step()\n        second.step()")),
    "LBFGS, which calls a closure": ("optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)", """
for epoch in range(2):
    for inputs, labels in loader:
        def closure():
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            return loss
        optimizer.step(closure)
"""),
    "frozen, then thawed": ("", """
for p in model[0].parameters():
    p.requires_grad_(False)
""" + TRAIN + """
for p in model[0].parameters():
    p.requires_grad_(True)
""" + TRAIN),
    "fine-tuned: a layer exchanged in the cell": ("", TRAIN + "torch.manual_seed(2)\nmodel[2] = nn.Linear(8, 3).double()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + TRAIN),
    "evaluation inside, stopped early": ("held_out = DataLoader(TensorDataset(x, y), batch_size=7)", """
history = []
for epoch in range(6):
    model.train()
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        total = sum(F.cross_entropy(model(a), b, reduction="sum").item() for a, b in held_out)
    history.append(total)
    if epoch and history[-1] > history[-2] - 1.0:
        break
same = history
"""),
    "accuracy on the training loader": ("", TRAIN + """
model.eval()
with torch.no_grad():
    count = sum(len(b) for a, b in loader)
    correct = sum((model(a).argmax(1) == b).sum().item() for a, b in loader)
same = [count, correct]
""" + "model.train()\n" + TRAIN),
    "scaled losses": ("scaler = torch.amp.GradScaler('cpu', init_scale=4.0, growth_interval=2)", TRAIN.replace("loss.backward()", "scaler.scale(loss).backward()").replace("optimizer.step()", "scaler.unscale_(optimizer)\n        nn.utils.clip_grad_norm_(model.parameters(), 0.05)\n        scaler.step(optimizer)\n        scaler.update()") + "same = [scaler.get_scale()]"),
    "scaled losses, with steps left out where one rank saw an infinite gradient": ("x[3] = float('inf')\nscaler = torch.amp.GradScaler('cpu', init_scale=4.0)", TRAIN.replace("loss.backward()", "scaler.scale(loss).backward()").replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()") + "same = [scaler.get_scale()]"),
    "iterators made and not used, as by tqdm.auto, and two loaders in turns": ("spare = DataLoader(TensorDataset(x), batch_size=16, shuffle=True)", TRAIN.replace("in loader", "in asked_twice(loader)").replace("for epoch", """
def asked_twice(loader):
    unused = iter(loader)
    for batch, _ in zip(loader, spare):
        yield batch
for epoch""", 1)),
    "an optimizer of the notebook that steps SGD": ("""
class Twice(torch.optim.SGD):
    def step(self, closure=None):
        super().step()
        return super().step(closure)
optimizer = Twice(model.parameters(), lr=0.05)
""", TRAIN),
    "a part is called before the whole, in the cell and in its loop": ("", "shape = model[0](x[:1]).shape\n" + TRAIN.replace("        loss =", "        model[:2](inputs)\n        loss =")),
    "a layer that sizes the next, in a class of the cell": ("", '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3)
        self.head = nn.Linear(self.conv(torch.zeros(1, 1, 6)).flatten(1).shape[1], 3)
    def forward(self, inputs):
        return self.head(torch.tanh(self.conv(inputs[:, None])).flatten(1))
model = Net().double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
''' + TRAIN),
    "a part is trained by itself before the whole, and used next to it": ("first = torch.optim.SGD(model[0].parameters(), lr=0.1)", '''
for inputs, labels in loader:
    first.zero_grad()
    model[0](inputs).pow(2).mean().backward()
    first.step()
''' + TRAIN.replace("loss =", "hidden = model[0](inputs)\n        loss = hidden.pow(2).mean() +")),
    "nets frozen in turns, the frozen one called first": (OTHER, '''
for epoch in range(3):
    for inputs, labels in loader:
        other.requires_grad_(False)
        optimizer.zero_grad()
        (other(inputs) - model(inputs)).pow(2).mean().backward()
        optimizer.step()
        other.requires_grad_(True)
        model.requires_grad_(False)
        second.zero_grad()
        (model(inputs) - other(inputs) + 1).pow(2).mean().backward()
        second.step()
        model.requires_grad_(True)
same = [*other.parameters()]
'''),
    "a net trained, frozen for an epoch, and thawed": (OTHER, '''
for epoch in range(4):
    model.requires_grad_(epoch != 2)
    for inputs, labels in loader:
        optimizer.zero_grad()
        second.zero_grad()
        criterion(model(inputs) + other(inputs), labels).backward()
        optimizer.step()
        second.step()
same = [*other.parameters()]
'''),
    "layers frozen in turns": ("", TRAIN.replace("range(2)", "range(4)").replace("        optimizer.zero_grad()", "        model[0].requires_grad_(epoch % 2 == 0)\n        model[2].requires_grad_(epoch % 2 == 1)\n        optimizer.zero_grad()")),
    "no_grad inside a loop that evaluates in train mode, and its length": ("history, held_out = [], DataLoader(TensorDataset(x[:30], y[:30]), batch_size=7)", TRAIN + '''
    total = 0
    for a, b in held_out:
        with torch.no_grad():
            total += criterion(model(a), b).item()
    history.append(total / len(held_out))
same = history
'''),
    "evaluation in train mode by a helper, in a comprehension, without no_grad; a mean of the data": (JUDGE, TRAIN + '''
    for number, (a, b) in enumerate(held_out):
        history.append(judge(a, b))
    history += [criterion(model(a), b).item() for a, b in held_out]
seen = total = 0
for a, b in loader:
    seen, total = seen + len(b), total + a.sum().item()
same = [*history, seen, total]
'''),
    "a trainer with a step and a judge": (JUDGE + '''
class Trainer:
    def fit(self):
        for epoch in range(3):
            for inputs, labels in loader:
                self.step(inputs, labels)
            for inputs, labels in held_out:
                history.append(self.judge(inputs, labels))
    def step(self, inputs, labels):
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
    def judge(self, inputs, labels):
        with torch.inference_mode():
            return criterion(model(inputs), labels).item()
''', "Trainer().fit()\nsame = history"),
    "train() inside the loop, after an evaluation": ("", TRAIN.replace("        optimizer.zero_grad()", "        model.train()\n        optimizer.zero_grad()") + "    model.eval()\n"),
    "layers in a list, where torch does not see them, and eval()": (JUDGE + '''
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [*model]
    def forward(self, inputs):
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs
net = Net()
''', TRAIN.replace("model(", "net(") + "net.eval()\nsame = [criterion(net(a), b).item() for a, b in held_out]\n"),
    "activation checkpointing": ("from torch.utils.checkpoint import checkpoint", TRAIN.replace("model(inputs)", "checkpoint(model, inputs, use_reentrant=False)")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ends_with_the_parameters_of_one_process(pool: RankPool, name: str) -> None:
    more, cell = CASES[name]
    one = alone(cell, more)
    ranks, result = on_ranks(pool, cell, more)
    assert difference(one["model"], ranks["model"]) < ROUNDING
    assert difference(one.get("same", []), ranks.get("same", [])) < ROUNDING
    assert result.left_behind == ()


NORMS = """
model = nn.Sequential(
    nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
    nn.BatchNorm1d(8, momentum=None, affine=False), nn.Linear(8, 3),
).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(x[:35], y[:35]), batch_size=11, shuffle=True)
"""


def test_batch_norm_over_all_ranks_is_that_of_one_process_running_statistics_too(pool: RankPool) -> None:
    cell = (
        TRAIN + "with torch.no_grad():\n    for inputs, labels in loader:\n        model(inputs)\n"
    )  # in train mode still
    ranks, result = on_ranks(pool, cell, NORMS, sync_batchnorm=True)
    assert difference(alone(cell, NORMS)["model"], ranks["model"]) < ROUNDING
    assert type(ranks["model"][2]).__name__ == "BatchNorm2d"
    assert not any("BatchNorm" in note for note in result.notes)

"""Training loops as people write them: for each, the phases found, how often, and the steps counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from capturing import capture, notebook


@dataclass
class Variant:
    name: str
    cell: str
    counts: dict[str, int]  # "data" is left out: epochs and a loop's end are fetches too
    steps: int = 6
    setup: str = ""
    boundary: str = "optimizer"
    rule: str = "loop over data"
    accumulation: int = 1
    gaps: tuple[str, ...] = ()
    samples: int | None = 4
    roles: set[tuple[str, str]] | None = field(default=None)


USUAL = {"forward": 6, "loss": 6, "zero_grad": 6, "backward": 6, "optimizer": 6}

VARIANTS = [
    Variant(
        "plain loop with a criterion module",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        USUAL,
        roles={("models", "model"), ("optimizers", "optimizer"), ("criteria", "criterion"), ("loaders", "loader")},
    ),
    Variant(
        "functional loss, metrics and clipping",
        """
        for x, y in loader:
            x, y = x.to("cpu"), y.to("cpu")
            out = model(x)
            loss = F.cross_entropy(out, y)
            accuracy = (out.argmax(1) == y).float().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        """,
        {"copy": 12, "forward": 6, "zero_grad": 6, "backward": 6, "optimizer": 6},
        gaps=("forward → zero_grad", "backward → optimizer"),
    ),
    Variant(
        "LBFGS with a closure",
        """
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                return loss
            optimizer.step(closure)
        """,
        {"forward": 12, "loss": 12, "zero_grad": 12, "backward": 12, "optimizer": 6, "closure": 12},
        setup="optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=2, tolerance_grad=0, tolerance_change=0)",
    ),
    Variant(
        "gradient accumulation over three batches",
        """
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y) / 3
            loss.backward()
            if (i + 1) % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
        {"forward": 6, "loss": 6, "zero_grad": 2, "backward": 6, "optimizer": 2},
        steps=2, accumulation=3, samples=12,
    ),
    Variant(
        "gradient scaler",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        """,
        {**USUAL, "scaler": 24},
        setup="scaler = torch.amp.GradScaler('cpu', init_scale=2.0)",
    ),
    Variant(
        "autocast of its own",
        """
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        USUAL,
    ),
    Variant(
        "GAN: two models, two optimizers",
        """
        for x, _ in loader:
            opt_d.zero_grad()
            real, fake = critic(x), critic(maker(torch.randn(4, 5)).detach())
            (bce(real, torch.ones(4, 1)) + bce(fake, torch.zeros(4, 1))).backward()
            opt_d.step()
            opt_g.zero_grad()
            bce(critic(maker(torch.randn(4, 5))), torch.ones(4, 1)).backward()
            opt_g.step()
        """,
        {"forward": 30, "loss": 18, "zero_grad": 12, "backward": 12, "optimizer": 12},
        setup="""
        critic, maker, bce = nn.Linear(8, 1), nn.Linear(5, 8), nn.BCEWithLogitsLoss()
        opt_d = torch.optim.Adam(critic.parameters())
        opt_g = torch.optim.Adam(maker.parameters())
        """,
        roles={
            ("models", "critic"), ("models", "maker"), ("optimizers", "opt_d"), ("optimizers", "opt_g"),
            ("criteria", "bce"), ("loaders", "loader"),
        },
    ),
    Variant(
        "model that returns its own loss",
        """
        for x, y in loader:
            optimizer.zero_grad()
            output = wrapped(x, labels=y)
            output["loss"].backward()
            optimizer.step()
        """,
        {"forward": 6, "zero_grad": 6, "backward": 6, "optimizer": 6},
        setup="""
        class WithLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = model
            def forward(self, x, labels):
                logits = self.net(x)
                return {"loss": criterion(logits, labels), "logits": logits}
        wrapped = WithLoss()
        """,
        roles={("models", "wrapped"), ("optimizers", "optimizer"), ("loaders", "loader")},
    ),
    Variant(
        "autograd.grad and SGD by hand",
        """
        from torch.autograd import grad
        for x, y in loader:
            loss = criterion(model(x), y)
            gradients = grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients):
                    parameter -= 0.01 * gradient
        """,
        {"forward": 6, "loss": 6, "backward": 6},
        boundary="backward", gaps=("backward → data",),
    ),
    Variant(
        "slices of a tensor instead of a loader",
        """
        for i in range(0, 24, 4):
            optimizer.zero_grad()
            loss = criterion(model(X[i:i + 4]), Y[i:i + 4])
            loss.backward()
            optimizer.step()
        """,
        USUAL,
        gaps=("data → zero_grad", "zero_grad → forward"),
        roles={("models", "model"), ("optimizers", "optimizer"), ("criteria", "criterion")},
    ),
    Variant(
        "model.forward called directly",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model.forward(x), y)
            loss.backward()
            optimizer.step()
        """,
        {**USUAL, "forward": 18},  # its three children are seen instead
        roles={("models", "model"), ("optimizers", "optimizer"), ("criteria", "criterion"), ("loaders", "loader")},
    ),
    Variant(
        "torch.func gradients of a functional call",
        """
        from torch.func import functional_call, grad
        weights = dict(model.named_parameters())
        for x, y in loader:
            gradients = grad(lambda w: F.cross_entropy(functional_call(model, w, (x,)), y))(weights)
            weights = {name: value - 0.01 * gradients[name] for name, value in weights.items()}
        """,
        {"forward": 6, "backward": 6},
        boundary="backward",
    ),
    Variant(
        "checkpointed blocks",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(deep(x), y)
            loss.backward()
            optimizer.step()
        """,
        {**USUAL, "recompute": 12},
        setup="""
        from torch.utils.checkpoint import checkpoint
        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 3)
            def forward(self, x):
                return checkpoint(self.second, checkpoint(self.first, x, use_reentrant=False), use_reentrant=False)
        deep = Deep()
        optimizer = torch.optim.SGD(deep.parameters(), lr=0.01)
        """,
        roles={("models", "deep"), ("optimizers", "optimizer"), ("criteria", "criterion"), ("loaders", "loader")},
    ),
    Variant(
        "torch.compile(model)",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(fast(x), y)
            loss.backward()
            optimizer.step()
        """,
        USUAL,
        setup="fast = torch.compile(model, backend='eager')",
        roles={("models", "fast"), ("optimizers", "optimizer"), ("criteria", "criterion"), ("loaders", "loader")},
    ),
    Variant(
        "model.compile() in place",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        USUAL,
        setup="model.compile(backend='eager')",
        roles={("models", "model"), ("optimizers", "optimizer"), ("criteria", "criterion"), ("loaders", "loader")},
    ),
    Variant(
        "compiled function from inputs to loss",
        """
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
        """,
        {"zero_grad": 6, "backward": 6, "optimizer": 6},  # inside a graph, forward and loss cannot be told apart
        setup="""
        @torch.compile(backend="eager")
        def loss_of(x, y):
            return criterion(model(x), y)
        """,
        gaps=("zero_grad → backward",),
        roles={("optimizers", "optimizer"), ("loaders", "loader")},
    ),
    Variant(
        "exception in forward, caught by the cell",
        """
        failed = 0
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            try:
                out = model(x[:, :3] if i == 2 else x)
            except RuntimeError:
                failed += 1
                continue
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()
        assert failed == 1
        """,
        {"forward": 6, "loss": 5, "zero_grad": 6, "backward": 5, "optimizer": 5},
        steps=5,
    ),
    Variant(
        "loader with two worker processes",
        """
        for x, y in parallel:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        USUAL,
        setup="parallel = DataLoader(TensorDataset(X, Y), batch_size=4, num_workers=2)",
        roles={("models", "model"), ("optimizers", "optimizer"), ("criteria", "criterion"), ("loaders", "parallel")},
    ),
]  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_phases_and_steps_of_a_training_loop(variant: Variant) -> None:
    torch._dynamo.reset()
    workload, recording = capture(variant.cell, notebook(variant.setup))
    steps = recording.steps
    counted = {phase: count for phase, count in steps.counts.items() if phase != "data"}
    assert counted == variant.counts
    assert (workload.steps, len(steps.steps)) == (variant.steps, variant.steps)
    assert (steps.boundary, steps.rule, steps.accumulation) == (
        variant.boundary,
        variant.rule,
        variant.accumulation,
    )
    assert workload.samples_per_step == variant.samples
    if variant.roles is not None:
        assert {(role.kind, role.name) for role in workload.roles} == variant.roles
    labels = {label for step in steps.steps for label in step.phases_ns}
    assert set(variant.gaps) <= labels
    for step in steps.steps:
        assert sum(step.phases_ns.values()) == step.duration_ns


def test_a_loop_inside_a_function_of_an_earlier_cell_has_the_same_phases() -> None:
    namespace = notebook(
        """
        def train(epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
        """
    )
    workload, recording = capture("train(2)", namespace)
    assert (workload.steps, recording.steps.rule) == (12, "loop over data")
    assert set(workload.reads) == {"train", "loader", "optimizer", "criterion", "model"}


def test_validation_between_epochs_belongs_to_no_step() -> None:
    workload, recording = capture(
        """
        for epoch in range(3):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                for x, y in held_out:
                    model(x)
        """,
        notebook("held_out = DataLoader(TensorDataset(X, Y), batch_size=12)"),
    )
    validation_fetches = [
        mark.time_ns for mark in recording.marks if mark.begins and mark.phase == "data" and mark.key == 9
    ]
    spans = recording.steps.boundaries_ns
    assert workload.steps == 18
    assert len(validation_fetches) == 3 * 3
    assert not any(begin <= time < end for time in validation_fetches for begin, end in spans)


def test_a_criterion_written_by_hand_is_a_loss_and_a_transform_is_no_model() -> None:
    cell = """
    for x, y in data:
        optimizer.zero_grad()
        loss = focal(model(x), y)
        loss.backward()
        optimizer.step()
    """
    setup = """
    class Focal(nn.Module):
        def forward(self, out, y):
            return ((1 - out.softmax(1).gather(1, y[:, None])) ** 2).mean()
    class Scale(nn.Module):
        def forward(self, x):
            return x * 2
    class Scaled(torch.utils.data.Dataset):
        scale = Scale()
        def __len__(self):
            return 24
        def __getitem__(self, i):
            return self.scale(X[i]), Y[i]
    focal = Focal()
    data = DataLoader(Scaled(), batch_size=4)
    """
    workload, recording = capture(cell, notebook(setup))
    assert recording.steps.counts | {"data": 0} == {**USUAL, "data": 0}
    assert [(role.kind, role.name) for role in workload.roles if role.kind in ("models", "criteria")] == [
        ("models", "model"),
        ("criteria", "focal"),
    ]


def test_loss_and_backward_inside_an_optimizer_closure_are_not_the_optimizers_own_time() -> None:
    _, recording = capture(
        next(v for v in VARIANTS if v.name.startswith("LBFGS")).cell,
        notebook(next(v for v in VARIANTS if v.name.startswith("LBFGS")).setup),
    )
    step: Any = recording.steps.steps[-1]
    assert {"optimizer", "closure", "forward", "backward", "loss"} <= set(step.phases_ns)
    assert sum(step.phases_ns.values()) == step.duration_ns

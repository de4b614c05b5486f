"""Loop nests as people write them, generated together with what is true of them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from statistics import median
from typing import Literal

from hypothesis import strategies as st

Source = Literal["loader", "enumerate", "slices", "split", "next", "while"]
Work = Literal["plain", "unroll", "unroll, backward in its last turn", "heads", "two losses", "rollout first"]
Update = Literal["one", "for o in optimizers", "second model", "closure"]
Validation = Literal["none", "no_grad", "graphs for nothing"]

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
net, other, heads = nn.Linear(2, 2), nn.Linear(2, 2), [nn.Linear(2, 2), nn.Linear(2, 2)]
loss_of = nn.MSELoss()
optimizers = [torch.optim.SGD(net.parameters(), lr=0.01), torch.optim.SGD(other.parameters(), lr=0.01)]
"""


VALIDATES = "loss_of(net(x), x)"


@dataclass(frozen=True)
class Nest:
    """One cell: how its loops are nested, what a step does, and how large things are."""

    source: Source
    work: Work
    update: Update
    validation: Validation
    in_function: bool
    epochs: int  # 0: no loop over epochs
    samples: int
    batch: int
    drop_last: bool
    every: int  # batches that are accumulated by `if (i + 1) % every == 0`
    micro: int  # parts of a batch (of a loader), or batches of a step ("next"), each with a backward
    times: int  # turns of the innermost loop that calls the model
    clears_first: bool
    stops_after: int  # batches of an epoch, by a break; 0: never

    @property
    def setup(self) -> str:
        return SETUP + textwrap.dedent(f"""
            X = torch.randn({self.samples}, 2)
            data = TensorDataset(X, X[:, 0])
            loader = DataLoader(data, batch_size={self.batch}, drop_last={self.drop_last})
            held_out = DataLoader(data, batch_size=3)
        """)

    @property
    def cell(self) -> str:
        body = _indented(self._loop + self._validation, 1 if self.epochs else 0)
        cell = (f"for epoch in range({self.epochs}):\n" if self.epochs else "") + body
        return f"def train():\n{_indented(cell, 1)}\ntrain()\n" if self.in_function else cell

    # What is true of it.

    @property
    def sizes(self) -> list[list[int]]:
        """Samples of the batches of each step, over all epochs."""
        cuts = [min(self.batch, self.samples - at) for at in range(0, self.samples, self.batch)]
        if self.drop_last and self._has_loader:
            cuts = [cut for cut in cuts if cut == self.batch]
        if self.source == "next":
            cuts = cuts[: len(cuts) // self.micro * self.micro]
            steps = [cuts[at : at + self.micro] for at in range(0, len(cuts), self.micro)]
            return (steps[: self.stops_after] if self.stops_after else steps) * max(self.epochs, 1)
        steps: list[list[int]] = []
        left: list[int] = []  # gradients that no step has used
        for _ in range(max(self.epochs, 1)):
            left = [] if self.clears_first else left
            for number, cut in enumerate(cuts[: self.stops_after] if self.stops_after else cuts):
                left.append(cut)
                if (number + 1) % self.every == 0:
                    steps.append(left)
                    left = []
        return steps

    @property
    def batches(self) -> int:
        """Of a step: those that gradients are accumulated over, or the parts that a batch is cut into."""
        if self.update == "closure" or self.source == "next":
            return 1 if self.update == "closure" else self.micro
        return round(median(len(step) * self.micro for step in self.sizes))

    @property
    def calls(self) -> int:
        """Of `net` in a step."""
        once = {
            "unroll": self.times,
            "unroll, backward in its last turn": self.times,
            "rollout first": 1 + self.times,
        }
        return self.every * self.micro * once.get(self.work, 1)

    @property
    def validation_line(self) -> int:
        """Where validation calls the model; 0 without one."""
        lines = self.cell.splitlines()
        return (
            0
            if self.validation == "none"
            else 1 + max(i for i, line in enumerate(lines) if VALIDATES in line)
        )

    @property
    def has_loop_over_data(self) -> bool:
        """Whether the loop can be seen: not one of a function that takes its batches from no loader."""
        return self._has_loader or not self.in_function

    @property
    def only_fetches_are_seen(self) -> bool:
        """Whether the loop is no `for` of the cell's own, so that where it begins or is left is not known."""
        is_left = self.stops_after > 0 and (self.in_function or self.source == "while")
        return is_left or (self.in_function and self.source == "next")

    @property
    def _has_loader(self) -> bool:
        return self.source in ("loader", "enumerate", "next", "while")

    # The text of the cell.

    @property
    def _loop(self) -> str:
        stop = f"if i + 1 == {self.stops_after}: break\n" if self.stops_after else ""
        rest = _indented(self._step + "i += 1\n", 1)
        leave = _indented("i -= 1\n" + stop + "i += 1\n", 1) if stop else ""
        head = {
            "loader": "for x, _ in loader:\n",
            "enumerate": "for i, (x, _) in enumerate(loader):\n",
            "slices": f"for at in range(0, {self.samples}, {self.batch}):\n    x = X[at:at + {self.batch}]\n",
            "split": f"for x in X.split({self.batch}):\n",
            "next": f"it = iter(loader)\nfor i in range(len(loader) // {self.micro}):\n",
            "while": "it = iter(loader)\nwhile True:\n    try: x, _ = next(it)\n    except StopIteration: break\n",
        }[self.source]
        return "i = 0\n" + head + rest + leave

    @property
    def _step(self) -> str:
        clear = "for o in optimizers: o.zero_grad()\n"
        if self.update == "closure":
            return f"def closure():\n{_indented(clear + self._backward('x'), 1)}    return loss\noptimizers[0].step(closure)\n"
        due = f"if (i + 1) % {self.every} == 0:\n" + _indented(
            self._update + ("" if self.clears_first else clear), 1
        )
        if self.clears_first:
            return (f"if i % {self.every} == 0:\n" + _indented(clear, 1)) + self._backwards + due
        return self._backwards + due

    @property
    def _backwards(self) -> str:
        if self.source == "next":
            return f"for part in range({self.micro}):\n" + _indented(
                "x, _ = next(it)\n" + self._backward("x"), 1
            )
        if self.micro == 1:
            return self._backward("x")
        return f"for part in range({self.micro}):\n" + _indented(self._backward(f"x[part::{self.micro}]"), 1)

    def _backward(self, x: str) -> str:
        last = "loss = loss_of(out, out.detach() + 1)\nloss.backward()\n"
        if self.work == "unroll":
            return f"out = 0\nfor t in range({self.times}):\n    out = out + net({x})\n" + last
        if self.work == "unroll, backward in its last turn":
            inner = f"out = out + net({x})\nif t == {self.times - 1}:\n" + _indented(last, 1)
            return f"out = 0\nfor t in range({self.times}):\n" + _indented(inner, 1)
        if self.work == "heads":
            return f"out = net({x})\nout = sum(head(out) for head in heads)\n" + last
        if self.work == "two losses":
            return f"out = net({x})\n(out ** 2).mean().backward(retain_graph=True)\n" + last
        first = (
            f"with torch.no_grad():\n    for t in range({self.times}): net({x})\n"
            if self.work == "rollout first"
            else ""
        )
        return first + f"out = net({x})\n" + last

    @property
    def _update(self) -> str:
        if self.update == "for o in optimizers":
            return "for o in optimizers: o.step()\n"
        second = "loss_of(other(x), x + 1).backward()\noptimizers[1].step()\n"
        return "optimizers[0].step()\n" + (second if self.update == "second model" else "")

    @property
    def _validation(self) -> str:
        if self.validation == "none":
            return ""
        loop = f"for x, _ in held_out:\n    {VALIDATES}\n"
        return "with torch.no_grad():\n" + _indented(loop, 1) if self.validation == "no_grad" else loop


def _indented(text: str, levels: int) -> str:
    return textwrap.indent(text, "    " * levels)


def _possible(nest: Nest) -> bool:
    is_closure = nest.update == "closure"
    accumulates = nest.every > 1 or (nest.micro > 1 and nest.source != "next")
    return bool(
        nest.sizes
        and not (is_closure and (accumulates or nest.source == "next"))
        and not (nest.source == "next" and nest.every > 1)
        and not (nest.micro > nest.batch and nest.source != "next")
        and (nest.micro == 1 or nest.source == "next" or nest.samples % nest.batch == 0)
    )


NESTS = st.builds(
    Nest,
    source=st.sampled_from(["loader", "enumerate", "slices", "split", "next", "while"]),
    work=st.sampled_from(
        ["plain", "unroll", "unroll, backward in its last turn", "heads", "two losses", "rollout first"]
    ),
    update=st.sampled_from(["one", "for o in optimizers", "second model", "closure"]),
    validation=st.sampled_from(["none", "no_grad", "graphs for nothing"]),
    in_function=st.booleans(), epochs=st.integers(0, 3),
    samples=st.integers(1, 20), batch=st.integers(1, 8), drop_last=st.booleans(),
    every=st.sampled_from([1, 1, 2, 3]), micro=st.sampled_from([1, 1, 2, 4]), times=st.integers(1, 4),
    clears_first=st.booleans(), stops_after=st.sampled_from([0, 0, 0, 2, 3]),
).filter(_possible)  # fmt: skip

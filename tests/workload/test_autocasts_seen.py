"""A profile knows under which autocast the cell trained, wherever that was entered."""

from __future__ import annotations

import pytest
from capturing import capture, notebook

CELL = """
for x, y in loader:
    optimizer.zero_grad()
    {}
    loss.backward()
    optimizer.step()
"""
CAST = 'torch.autocast("cpu", dtype=torch.bfloat16)'
A_FUNCTION = f"""
@{CAST}
def cast(x, y):
    return criterion(model(x), y)
"""
A_MODEL = f"""
class Cast(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model
    def forward(self, x):
        with {CAST}:
            return self.inner(x)
own = Cast()
"""
BF16 = (("cpu", "bfloat16"),)


@pytest.mark.parametrize(
    ("line", "setup", "seen"),
    [
        (f"with {CAST}: loss = criterion(model(x), y)", "", BF16),
        ('with torch.amp.autocast("cpu"): loss = criterion(model(x), y)', "", BF16),
        ("loss = cast(x, y)", A_FUNCTION, BF16),
        ("loss = criterion(own(x), y)", A_MODEL, BF16),
        (
            f"with {CAST}: hidden = model[0](x)\n"
            '    with torch.autocast("cpu", dtype=torch.float16): hidden = model[2](hidden.float())\n'
            "    loss = criterion(hidden.float(), y)",
            "",
            (*BF16, ("cpu", "float16")),
        ),
        ("loss = criterion(model(x), y)", "", ()),
        ('with torch.autocast("cpu", enabled=False): loss = criterion(model(x), y)', "", ()),
        (f"with torch.no_grad(), {CAST}: model(x)\n    loss = criterion(model(x), y)", "", ()),
        (f"with {CAST}: pass\n    loss = criterion(model(x), y)", "", ()),
    ],
    ids=["with", "default format", "a decorator", "in the model", "two formats", "none", "switched off",
         "for validation", "round nothing"],
)  # fmt: skip
def test_the_device_and_format_of_each_autocast_that_training_ran_under_are_known(line, setup, seen):
    workload, recording = capture(CELL.format(line), notebook(setup))
    assert workload.conditions.autocast == seen
    assert recording.conditions.autocast == seen

"""A GAN's cell: an acceleration tried, kept and exported for one of its two models."""

from __future__ import annotations

import pytest
import torch

from accel.errors import AccelError, UnknownName

SETUP = """
class Generator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1))

class Critic(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))

generator, critic = Generator(), Critic()
optimizer_g = torch.optim.Adam(generator.parameters())
optimizer_c = torch.optim.Adam(critic.parameters())
real = DataLoader(TensorDataset(torch.randn(64, 3, 8, 8)), batch_size=8)
"""
CELL = """
for (images,) in real:
    made = generator(torch.randn(8, 2, 8, 8))
    optimizer_c.zero_grad()
    (critic(made.detach()) - critic(images)).mean().backward()
    optimizer_c.step()
    optimizer_g.zero_grad()
    (-critic(made)).mean().backward()
    optimizer_g.step()
"""
BUILDS = "generator = Generator()\noptimizer_g = torch.optim.Adam(generator.parameters())\n" + CELL


@pytest.fixture
def gan(workbench):
    exec(SETUP, workbench.namespace)
    workbench.profile(CELL)
    return workbench


def is_channels_last(model):
    return model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_a_trial_on_one_model_says_so_and_proves_its_effect(gan):
    (row,) = gan.try_("channels_last+fused_optimizer", on="generator").rows
    on = 'on="generator,optimizer_g"'
    assert row.plan == f"channels_last({on})+fused_optimizer({on})"
    assert row.state == "done", row.error
    assert all(took for _, took, _ in row.proofs), row.proofs
    assert any("updates of parameter groups were fused" in evidence for _, _, evidence in row.proofs), (
        row.proofs
    )


def test_keep_undo_and_export_concern_the_chosen_objects_alone(gan):
    names = gan.namespace
    gan.keep("channels_last+fused_optimizer", on="generator")
    assert is_channels_last(names["generator"])
    assert not is_channels_last(names["critic"])
    fused = [names[name].param_groups[0]["fused"] for name in ("optimizer_g", "optimizer_c")]
    assert fused == [True, None]
    code = gan.export().code
    assert "generator.to(memory_format=torch.channels_last)" in code
    assert "critic.to" not in code
    assert "optimizer_c.param_groups" not in code
    gan.profile(CELL)  # what is kept stays so, for the same objects
    assert is_channels_last(names["generator"])
    assert not is_channels_last(names["critic"])
    gan.undo()
    assert not is_channels_last(names["generator"])


def test_a_model_that_the_cell_builds_is_found_by_its_class(gan):
    gan.profile(BUILDS)
    (row,) = gan.try_("channels_last", on="generator").rows
    assert row.state == "done", row.error
    assert row.proofs[0][1], row.proofs
    assert row.plan == 'channels_last(on="generator,Generator,optimizer_g,Adam")'


def test_a_name_that_the_cell_does_not_use_is_refused(gan):
    with pytest.raises(UnknownName, match="generator"):
        gan.try_("channels_last", on="genrator")
    with pytest.raises(UnknownName, match="critic"):
        gan.keep("channels_last", on="critik")


def test_two_objects_of_one_class_that_the_cell_builds_cannot_be_told_apart(gan):
    gan.profile(
        "optimizer_g = torch.optim.Adam(generator.parameters())\noptimizer_c = torch.optim.Adam(critic.parameters())\n"
        + CELL
    )
    with pytest.raises(AccelError, match="look alike"):
        gan.keep("fused_optimizer", on="optimizer_g")
    gan.keep("fused_optimizer", on="optimizer_g,optimizer_c")
    gan.keep("channels_last", on="generator")
    assert is_channels_last(gan.namespace["generator"])

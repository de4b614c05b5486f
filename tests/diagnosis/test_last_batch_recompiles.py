"""A smaller last batch that compiles anew is found; equal batches, and models that are not compiled, are not."""

from __future__ import annotations

from functools import cache

from accel.diagnosis.last_batch_recompiles import last_batch_recompiles
from tests.diagnosis.making import real

# Two workers' worth of epochs are not needed: the backend that runs graphs as they are needs no C++ compiler.
COMPILED = "model = torch.compile(model, backend='eager'); optimizer = torch.optim.SGD(model.parameters())\n"
DATA = """
from torch.utils.data import DataLoader, TensorDataset
X, Y = torch.randn(50, 16), torch.randint(0, 4, (50,))
loader = DataLoader(TensorDataset(X, Y), batch_size=8{more})
"""
EPOCH = """
torch._dynamo.reset()
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""


@cache
def faulty():
    return real(EPOCH, COMPILED + DATA.format(more=""), timed=False)


@cache
def sound():
    return real(EPOCH, COMPILED + DATA.format(more=", drop_last=True"), timed=False)


def test_the_size_of_the_last_batch_and_the_remedy_are_told():
    finding = last_batch_recompiles(faulty())
    assert finding.details["samples_in_last_batch"] == 2
    assert "50 samples in batches of 8 leave 2, drop_last=False" in finding.evidence
    assert "loader with drop_last=True" in finding.remedy


def test_a_model_that_is_not_compiled_takes_a_smaller_batch_as_it_is():
    assert last_batch_recompiles(real(EPOCH, DATA.format(more=""), timed=False)) is None


def test_compiling_in_the_middle_of_an_epoch_is_another_fault():
    cell = EPOCH.replace("model(x)", "model(x.flip(0)[: 8 - (epoch == 0 and x[0, 0] == X[16, 0]) * 4])")
    cell = cell.replace(", y)", ", y[: 8 - (epoch == 0 and x[0, 0] == X[16, 0]) * 4])")
    evidence = real(cell, COMPILED + DATA.format(more=", drop_last=True"), timed=False)
    assert [number for number, _ in evidence.profile.whole_run.late_compiling] == [2]
    assert last_batch_recompiles(evidence) is None


ONE_STEP_EPOCHS = """
whole = DataLoader(TensorDataset(X[:5], Y[:5]), batch_size=8)
for v, w in whole:
    with torch.no_grad():
        model(v[:4])
"""


def test_a_loader_of_one_batch_that_only_validates_is_not_blamed():
    cell = EPOCH.replace("model(x)", "model(x[: 8 - 4 * (epoch == 0 and x[0, 0] == X[16, 0])])")
    cell = cell.replace(", y)", ", y[: 8 - 4 * (epoch == 0 and x[0, 0] == X[16, 0])])")
    evidence = real(cell + ONE_STEP_EPOCHS, COMPILED + DATA.format(more=", drop_last=True"), timed=False)
    assert [number for number, _ in evidence.profile.whole_run.late_compiling] == [2]
    assert evidence.profile.whole_run.step_loader == "loader"
    assert last_batch_recompiles(evidence) is None


def test_a_training_loop_of_one_step_an_epoch_has_no_last_batch():
    data = DATA.replace("50", "6").format(more="")
    cell = EPOCH.replace("range(2)", "range(6)").replace("model(x)", "model(x[: 6 - 2 * (epoch == 3)])")
    evidence = real(cell.replace(", y)", ", y[: 6 - 2 * (epoch == 3)])"), COMPILED + data, timed=False)
    assert evidence.profile.whole_run.late_compiling
    assert last_batch_recompiles(evidence) is None


def test_compiling_for_another_reason_in_the_last_step_is_not_its_size():
    cell = EPOCH.replace("model(x)", "model(x[:2].clone().requires_grad_(len(x) == 2))").replace(
        ", y)", ", y[:2])"
    )
    evidence = real(cell, COMPILED + DATA.format(more=""), timed=False)
    assert [number for number, _ in evidence.profile.whole_run.late_compiling] == [6]
    assert last_batch_recompiles(evidence) is None

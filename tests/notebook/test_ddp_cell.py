"""`%%accel ddp` in a real shell: the cell's text goes to ranks, and its state, its prints and its errors come home."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator

import psutil
import pytest

from accel.current import current_workbench
from accel.distributed.cells.ddp_result import DdpResult
from accel.distributed.ranks.rank_devices import rank_devices
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError, RankError, UnknownName
from accel.plans.plan import Plan
from accel_widgets import panel_of

SETUP = """
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=8, shuffle=True)
losses = []

def fit(epochs=1):
    for epoch in range(epochs):
        for x, y in loader:
            losses.append(step(x, y))
    return losses[-1]
"""
LOOP = "for x, y in loader:\n    losses.append(step(x, y))\n"


@pytest.fixture
def training(shell) -> object:
    assert shell.run(SETUP).success
    return shell


@pytest.fixture(scope="module")
def warm_ranks() -> Iterator[RankPool]:
    """Two ranks as a notebook has them after its first run."""
    ranks = RankPool(2)
    yield ranks
    ranks.close()


@pytest.fixture
def ranks_are_up(training, warm_ranks: RankPool) -> Iterator[None]:
    """In a notebook that has run a cell on two ranks before."""
    ranks = current_workbench().ranks
    ranks._pool, ranks._pool_is_for = warm_ranks, (2, None, rank_devices(2).environments, Plan(), False)
    yield
    ranks._pool = None


@pytest.mark.usefixtures("ranks_are_up")
def test_the_cell_trains_and_its_state_is_in_the_same_objects(training) -> None:
    names = training.user_ns
    before = {name: names[name] for name in ("model", "optimizer", "loader", "losses")}
    weights = names["model"][0].weight.detach().clone()
    result = training.run(f"%%accel ddp -n 2 -o answer\n{LOOP}best = min(losses)").result
    assert isinstance(result, DdpResult)
    assert names["answer"] is result
    assert all(names[name] is thing for name, thing in before.items())
    assert not names["model"][0].weight.equal(weights)
    assert names["optimizer"].state[names["model"][0].weight]["momentum_buffer"].abs().sum() > 0
    assert result.steps == len(names["losses"]) == 4  # eight batches, two a step
    assert names["best"] == min(names["losses"])
    assert [rank.lane.step for rank in result.ranks] == [4, 4]
    kept = weakref.ref(before.pop("model"))
    del weights
    training.run("del model, optimizer, step, train, fit")
    gc.collect()
    assert kept() is None  # nothing of ours holds on to it
    assert "2 ranks over gloo trained 4 steps" in str(result)


@pytest.mark.usefixtures("ranks_are_up")
def test_options_of_the_exchange_reach_the_ranks_and_what_was_watched_comes_back(training) -> None:
    line = "%%accel ddp -n 2 --communication --bucket-mb 0.5 --compress bf16 --static-graph"
    result = training.run(
        f"{line}\nfor epoch in range(3):\n    for x, y in loader:\n        losses.append(step(x, y))"
    ).result
    assert result.communication.steps == 12 - 5  # two passes before DDP, and three in which it settles
    assert result.communication.compress == "bf16"
    (bucket,) = result.communication.buckets
    assert 2 * bucket.sent_bytes == bucket.gradient_bytes
    assert "Communication" not in str(training.run(f"%%accel ddp -n 2\n{LOOP}").result)


@pytest.mark.usefixtures("ranks_are_up")
def test_a_plan_is_applied_in_the_ranks_and_one_that_cannot_be_is_refused(training) -> None:
    result = training.run(f"%%accel ddp -n 2 --plan fused_optimizer + gradient_accumulation\n{LOOP}").result
    assert result.plan == "fused_optimizer+gradient_accumulation"
    assert "gradient_accumulation: 2 updates for 4 batches, on 2 ranks" in str(result)
    training.run("import accel")
    assert (
        training.run("accel.ddp(fit, n=2, plan='fused_optimizer')").result == training.user_ns["losses"][-1]
    )
    refused = training.run(f"%%accel ddp -n 2 --plan chanels_last\n{LOOP}").error_in_exec
    assert isinstance(refused, UnknownName)


@pytest.mark.fresh_interpreters
def test_a_second_cell_goes_on_on_warm_ranks_in_a_function_of_an_earlier_cell_and_unloading_ends_them(
    training,
) -> None:
    first = training.run(f"%%accel ddp -n 2\n{LOOP}").result
    pids = current_workbench().ranks.pids
    second = training.run("%%accel ddp -n 2\nlast = fit(epochs=2)").result
    assert current_workbench().ranks.pids == pids
    assert second.start_s < first.start_s
    assert len(training.user_ns["losses"]) == 12
    assert training.user_ns["last"] == training.user_ns["losses"][-1]
    assert "Ranks" in str(training.run("%accel status").result)
    assert "rank 1 may use" in str(training.run("%accel affinity").result)
    training.run("%unload_ext accel")
    assert not any(psutil.pid_exists(pid) for pid in pids.values())


BUILT_IN_THE_CELL = """%%accel ddp -n 2
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 2)
    def forward(self, x):
        return self.inner(x)

def made(rate):
    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=rate)

net, sgd = made(0.1)
for x, y in loader:
    sgd.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    sgd.step()
"""


@pytest.mark.usefixtures("ranks_are_up")
def test_model_and_optimizer_built_in_the_cell_arrive_as_its_variables(training) -> None:
    assert training.run(BUILT_IN_THE_CELL).success
    names = training.user_ns
    assert type(names["net"]).__name__ == "Net"
    assert names["sgd"].param_groups[0]["params"][0] is names["net"].inner.weight
    assert training.run(
        "import inspect; told = inspect.getsource(made)"
    ).success  # the cell's lines are known here too
    assert "def made(rate)" in names["told"]
    assert training.run("net(torch.randn(2, 8)).sum().backward()").success


@pytest.mark.usefixtures("ranks_are_up")
def test_a_closure_over_a_model_trains_that_model(training) -> None:
    training.run("""
def trainer_of(net, optimizer):
    def run():
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        return net
    return run
run = trainer_of(model, optimizer)
before = model[0].weight.detach().clone()
import accel
trained = accel.ddp(run, n=2)
""")
    assert training.user_ns["trained"] is training.user_ns["model"]
    assert not training.user_ns["model"][0].weight.equal(training.user_ns["before"])


@pytest.mark.usefixtures("ranks_are_up")
def test_a_function_gives_what_it_returned_and_a_partial_and_a_method_work(training) -> None:
    assert training.run("""
import accel, functools
class Trainer:
    def __init__(self):
        self.net, self.rounds = nn.Linear(8, 2), 0
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def fit(self, epochs):
        for _ in range(epochs):
            for x, y in loader:
                self.optimizer.zero_grad()
                criterion(self.net(x), y).backward()
                self.optimizer.step()
            self.rounds += 1
        return self.rounds
trainer = Trainer()
weight, before = trainer.net.weight, trainer.net.weight.detach().clone()
rounds = accel.ddp(functools.partial(trainer.fit, 2), n=2)
""").success, training.tracebacks
    names = training.user_ns
    assert names["rounds"] == names["trainer"].rounds == 2
    assert names["trainer"].net.weight is names["weight"]
    assert not names["weight"].equal(names["before"])


@pytest.mark.usefixtures("ranks_are_up")
def test_prints_of_rank_0_appear_and_the_others_on_request_by_rank(training, capsys) -> None:
    cell = "import torch.distributed as dist\nprint('I am', dist.get_rank())\nprint('\\rhalf', end='')"
    training.run(f"%%accel ddp -n 2\n{cell}")
    assert "I am 0\n\rhalf" in (shown := capsys.readouterr().out)
    assert "I am 1" not in shown
    training.run(f"%%accel ddp -n 2 --all-output\n{cell}")
    shown = capsys.readouterr().out
    assert shown.index("I am 0") < shown.index("── rank 1 ──") < shown.index("I am 1")


@pytest.mark.usefixtures("ranks_are_up")
def test_the_value_of_the_last_line_is_shown(training, capsys) -> None:
    training.run(f"%%accel ddp -n 2\n{LOOP}len(losses) * 1000")
    assert "4000\n" in capsys.readouterr().out
    training.run("%%accel ddp -n 2\nlen(losses) * 1001;")
    assert "4004" not in capsys.readouterr().out


@pytest.mark.usefixtures("ranks_are_up")
def test_in_a_notebook_the_lanes_are_redrawn_in_place(training) -> None:
    training.kernel = "displays are redrawn in place"
    try:
        training.run("%%accel ddp -n 2\nfor _ in range(40):\n    for x, y in loader: step(x, y)")
    finally:
        del training.kernel
    first, *later = training.display_pub.outputs
    assert "Starting 2 ranks" in training.shown[0]
    assert "Done on 2 ranks" in training.shown[-1]
    assert all(output["update"] for output in later)
    assert len({output["transient"]["display_id"] for output in [first, *later]}) == 1


@pytest.mark.usefixtures("ranks_are_up")
def test_a_function_is_shown_as_a_cell_is_and_what_became_of_the_state_stands_there(training) -> None:
    training.kernel = "displays are redrawn in place"
    try:
        training.run("import accel\naccel.ddp(fit, n=2)")
    finally:
        del training.kernel
    assert "Starting 2 ranks" in training.shown[0]
    assert "--background" in training.shown[0]
    assert "Done on 2 ranks" in training.shown[-1]
    assert "The trained state is in your notebook's own objects." in training.shown[-1]
    assert all(output["update"] for output in training.display_pub.outputs[1:])


def test_discard_leaves_everything_as_it_was(training) -> None:
    training.run("before = {name: value.clone() for name, value in model.state_dict().items()}")
    result = training.run(f"%%accel ddp -n 2 --discard\n{LOOP}fresh = 1").result
    names = training.user_ns
    assert not result.has_state
    assert names["losses"] == []
    assert "fresh" not in names
    assert all(value.equal(names["before"][name]) for name, value in names["model"].state_dict().items())


@pytest.mark.usefixtures("ranks_are_up")
def test_an_error_of_one_rank_shows_the_users_line_and_changes_nothing(training) -> None:
    cell = f"%%accel ddp -n 2\nimport torch.distributed as dist\n{LOOP}    if dist.get_rank() == 1: 1 / 0\nmore = 1"
    result = training.run(cell)
    assert isinstance(result.error_in_exec, RankError)
    assert result.error_in_exec.rank == 1
    (shown,) = training.tracebacks
    assert "line 5, in <module>" in shown
    assert "if dist.get_rank() == 1: 1 / 0" in shown
    assert "ZeroDivisionError" in shown
    assert "run_ddp_cell" not in shown
    assert training.user_ns["losses"] == []


@pytest.mark.parametrize(
    ("cell", "kind", "words"),
    [
        ("%%accel ddp -n 0\npass", AccelError, "whole number from 1 on"),
        ("%%accel ddp -n two\npass", AccelError, "invalid int value"),
        ("%%accel ddp --timeout 0s\npass", AccelError, "a number of seconds above 0"),
        ("%%accel ddp --timeout soon\npass", AccelError, "invalid duration value"),
        ("%%accel ddp --every -5\npass", AccelError, "a number of steps between two checkpoints"),
        ("%%accel ddp --max-restarts -1\npass", AccelError, "from 0 to 1,000"),
        ("%%accel ddp -n 100000\npass", AccelError, "this machine has"),
        ("import accel\naccel.ddp(fit, batch='globl')", UnknownName, "Did you mean 'global'"),
        ("import accel\naccel.ddp(fit, bucket_mb='4')", AccelError, "--bucket-mb 4"),
        ("import accel\naccel.ddp(fit, compress=None)", AccelError, "--compress None"),
        ("import accel\naccel.ddp(fit, timeout_s='60')", AccelError, "a number of seconds above 0"),
        ("import accel\naccel.ddp(fit, loaders='loadr')", AccelError, "'loadr' is no DataLoader"),
        ("%%accel ddp --bach global\npass", UnknownName, "Did you mean '--batch'"),
        ("%%accel ddp --batch globl\npass", UnknownName, "Did you mean 'global'"),
        ("%%accel ddp --loaders loadr\npass", AccelError, "There are: loader."),
        ("%%accel ddp --threads 4096\npass", AccelError, "4,096"),
        ("%%accel ddp\n%%bash\nls", AccelError, "ranks run only Python"),
        ("%%accel ddp\n# nothing", AccelError, "the cell is empty"),
        ("%%accel ddp\nfiles = !ls", AccelError, "a line for IPython"),
        (
            "%%accel ddp\nfit()\n%accel status",
            AccelError,
            "%accel status works only in the notebook. Move that line",
        ),
        ("%accel ddp -n 2", AccelError, "with two %"),
    ],
)
def test_what_cannot_be_is_told_and_starts_no_rank(training, cell: str, kind: type, words: str) -> None:
    result = training.run(cell)
    assert isinstance(result.error_in_exec, kind)
    assert words in str(result.error_in_exec)
    assert current_workbench().ranks.pids == {}
    assert not current_workbench().ranks.is_running


def test_gpus_are_refused_in_words_where_there_are_none(training) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    error = training.run("%%accel ddp -n 2 --backend nccl\npass").error_in_exec
    assert "torch sees no CUDA GPU here" in str(error)


def test_a_mistake_in_the_cell_is_told_with_its_line(training) -> None:
    assert not training.run("%%accel ddp -n 2\nfor x in loader\n    pass").success
    (shown,) = training.tracebacks
    assert "line 2" in shown
    assert "for x in loader" in shown
    assert "SyntaxError" in shown
    assert "_python" not in shown


@pytest.mark.usefixtures("ranks_are_up")
def test_timing_magics_are_taken_off(training, capsys) -> None:
    assert training.run("%%accel ddp -n 2\n%%time\n%time value = fit()").success
    assert training.user_ns["value"] == training.user_ns["losses"][-1]
    assert "Left out, as ranks run plain Python: %%time, %time" in capsys.readouterr().out


def test_interrupt_ends_all_ranks_and_the_next_run_starts_anew(training) -> None:
    sent = threading.Event()

    def interrupt_at_the_first_step() -> None:
        while not sent.is_set():
            ranks = current_workbench().ranks
            lanes = ranks.lanes
            if lanes and all(lane.step for lane in lanes):
                sent.set()
                os.kill(os.getpid(), signal.SIGINT)
            sent.wait(0.01)

    watching = threading.Thread(target=interrupt_at_the_first_step)
    watching.start()
    result = training.run("%%accel ddp -n 2\nfit(epochs=1_000_000)")
    pids = set(current_workbench().ranks.pids.values())
    watching.join()
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert training.tracebacks == [f"KeyboardInterrupt: {result.error_in_exec}"]
    assert training.user_ns["losses"] == []
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert training.run(f"%%accel ddp -n 2\n{LOOP}").success


@pytest.mark.usefixtures("ranks_are_up")
def test_in_the_background_cells_run_beside_it_and_stop_brings_its_state_home(training) -> None:
    panel = panel_of(current_workbench())
    run = training.run("%%accel ddp -n 2 --background -o run\nfit(epochs=1_000_000)").result
    while not (run.lanes and all(lane.step for lane in run.lanes)):
        run._ended.wait(0.01)
    assert training.run("1 + 1").result == 2
    assert "a run on the ranks goes on" in str(training.run(f"%%accel ddp -n 2\n{LOOP}").error_in_exec)
    assert "a run on ranks goes on" in str(training.run(f"%%accel profile\n{LOOP}").error_in_exec)
    panel._updates.draw_now()
    assert panel.bar.beat["phase"] == "Training on 2 ranks"
    assert panel.bar.can == []
    training.run("with torch.no_grad(): model[0].weight.add_(1)")
    run.stop()
    result = run.wait(60)
    assert run.state == "stopped"
    assert result.was_stopped
    assert any(note.startswith("model changed in the notebook during this run") for note in result.notes), (
        result.notes
    )
    panel._updates.draw_now()
    assert panel.ranks.run is run
    assert panel.ranks.line.startswith("Stopped on 2 ranks")
    assert panel.ranks.notes[0] == result.state_line
    panel.close()
    assert result.steps == len(training.user_ns["losses"])  # what the loop does after a step belongs to it
    assert training.run(f"%%accel ddp -n 2\n{LOOP}").success


@pytest.mark.usefixtures("ranks_are_up")
def test_where_no_loop_runs_between_cells_its_state_is_home_in_the_next_one(training) -> None:
    run = training.run(f"%%accel ddp -n 2 --background\n{LOOP}").result
    assert run._ended.wait(60)
    assert training.run("len(losses)").result == 4
    assert run.result is not None
    assert not any("changed in the notebook" in note for note in run.result.notes)


def test_more_ranks_than_cpus_are_told_before_they_start(training, capsys, monkeypatch) -> None:
    monkeypatch.setattr("accel.distributed.ranks.room_for_ranks.starting_mask", lambda: {0})
    assert training.run(f"%%accel ddp -n 2\n{LOOP}print('trained')").success
    shown = capsys.readouterr().out
    assert shown.index("2 ranks share 1 CPU:") < shown.index("trained")

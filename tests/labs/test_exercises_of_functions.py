"""Exercises whose work is a function or a value: a solution passes, and each usual mistake fails with the hint that is for it.

The starting point is read from the notebook that students get: it runs, and it does not pass.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import torch

from accel.errors import AccelError
from accel.labs.course.chapter import chapter_of, named
from accel.labs.exercises import CHECKS, check_named, seen

LABS = Path(__file__).parents[2] / "notebooks" / "labs"

RIGHT = {
    (1, "updates"): """
def work(samples, batch, epochs, drop_last):
    return epochs * (samples // batch if drop_last else -(-samples // batch))
""",
    (2, "the-whole-job"): """
def work(times, factors):
    return sum(times) / sum(time / factor for time, factor in zip(times, factors))
""",
    (3, "one-graph"): """
def work(x):
    y = torch.relu(x)
    return torch.where(y.mean() > 0.5, y * 2, y) - 1
""",
    (3, "few-shapes"): "def work(length):\n    return 50 * -(-length // 50)",
    (3, "earned-back"): """
def work(eager_first, eager_later, compiled_first, compiled_later):
    behind, epochs = compiled_first - eager_first, 1
    while behind >= 0:
        if compiled_later >= eager_later:
            return None
        behind, epochs = behind + compiled_later - eager_later, epochs + 1
    return epochs
""",
    (4, "physical-cores"): """
def work(core_of_cpu, threads):
    first = {core: cpu for cpu, core in core_of_cpu.items()}
    return list(first.values())[:threads] if threads <= len(first) else None
""",
    (8, "share-the-samples"): """
def work(samples, ranks, rank):
    each = -(-samples // ranks)
    return [index % samples for index in range(rank, each * ranks, ranks)]
""",
    (8, "ring-all-reduce"): """
def work(tensors, wire):
    n = len(tensors)
    pieces = [each.chunk(n) for each in tensors]
    for turn in range(2 * (n - 1)):
        for rank in range(n):
            wire.send(rank, (rank + 1) % n, pieces[rank][(rank - turn) % n])
        for rank in range(n):
            got, mine = wire.receive((rank - 1) % n, rank), pieces[rank][(rank - 1 - turn) % n]
            mine.copy_(mine + got if turn < n - 1 else got)
""",
    (8, "time-of-a-step"): """
def work(forward, backward, update, first, exchange):
    return forward + max(backward, first + exchange) + update
""",
    (9, "cores-for-each-rank"): """
def work(socket_of, ranks, threads):
    sockets, found = {}, []
    for core, socket in socket_of.items():
        sockets.setdefault(socket, []).append(core)
    for cores in sockets.values():
        while len(cores) >= threads and len(found) < ranks:
            found.append([cores.pop() for _ in range(threads)])
    return found if len(found) == ranks else None
""",
    (10, "four-gpus"): "work = (4, 5, 6, 7)",
    (10, "renumbering"): """
def work(variables, gpu):
    visible = variables.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpu
    numbers = [int(number) for number in visible.split(",")]
    return numbers.index(gpu) if gpu in numbers else None
""",
    (10, "efficiency"): "work = {count: 707 / seconds / count for count, seconds in {1: 707, 2: 393, 4: 208, 8: 109}.items()}",
    (11, "eight-ranks"): """
work = '''#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT=29500 WORLD_SIZE=$SLURM_NTASKS
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec python train.py'
'''
""",
    (11, "who-am-i"): """
def work(variables):
    for names in ("RANK WORLD_SIZE LOCAL_RANK", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK",
                  "SLURM_PROCID SLURM_NTASKS SLURM_LOCALID"):
        if names.split()[0] in variables:
            return tuple(int(variables[name]) for name in names.split())
    return 0, 1, 0
""",
    (11, "time-on-the-wire"): """
def work(parameters, bytes_each, gbit, messages, latency_us):
    return parameters * bytes_each * 8 / (gbit * 1e6) + messages * latency_us / 1000
""",
}  # fmt: skip

WRONG = [
    (1, "updates", "def work(s, b, epochs, drop_last):\n    return epochs * -(-s // b)", "With drop_last"),
    (1, "updates", "def work(s, b, epochs, drop_last):\n    return s * epochs / b", "as a whole number"),
    (2, "the-whole-job", "def work(times, factors):\n    return sum(factors) / len(factors)", "its own part"),
    (3, "one-graph", "def work(x):\n    return torch.relu(x) - 1", "Both branches"),
    (3, "one-graph", "def work(x):\n    return (2 if x.relu().mean().item() > 0.5 else 1) * x.relu() - 1", "torch.where"),
    (3, "few-shapes", "def work(length):\n    return 200", "Spread the lengths"),
    (3, "few-shapes", "def work(length):\n    return 16 * -(-length // 16)", "every shape is built"),
    (3, "few-shapes", "def work(length):\n    return min(length, 64)", "cannot become shorter"),
    (3, "earned-back", "def work(*times):\n    return 7", "never comes back"),
    (3, "earned-back", "def work(a, b, c, d):\n    return int((c - a) // (b - d)) if b > d else None", "after each one"),
    (4, "physical-cores", "def work(core_of_cpu, threads):\n    return sorted(core_of_cpu)[::2][:threads]", "core"),
    (8, "share-the-samples", "def work(samples, ranks, rank):\n    return range(samples)", "no further"),
    (8, "share-the-samples", "def work(samples, n, rank):\n    return range(rank, samples // n * n, n)", "every sample"),
    (8, "ring-all-reduce", "def work(tensors, wire):\n    pass", "finished piece"),
    (8, "ring-all-reduce", "def work(ts, wire):\n    whole = sum(ts)\n    [t.copy_(whole) for t in ts]", "only the wire"),
    (8, "ring-all-reduce", """
def work(tensors, wire):
    n, passed = len(tensors), [each.clone() for each in tensors]
    for _ in range(n - 1):
        for rank in range(n):
            wire.send(rank, (rank + 1) % n, passed[rank])
        passed = [wire.receive((rank - 1) % n, rank) for rank in range(n)]
        for rank in range(n):
            tensors[rank] += passed[rank]
""", "as many pieces"),
    (8, "time-of-a-step", "def work(f, b, u, first, exchange):\n    return f + max(b, exchange) + u", "update waits"),
    (9, "cores-for-each-rank", "def work(socket_of, ranks, threads):\n    return None", "Fill one socket"),
    (9, "cores-for-each-rank", "def work(socket_of, ranks, threads):\n    return [list(socket_of)[:threads]] * ranks", ""),
    (9, "let-them-meet", "def work(rank, ranks, port):\n    return {'RANK': str(rank), 'PATH': '/tmp'}", "These are enough"),
    (9, "let-them-meet", "def work(rank, ranks, port):\n    return rank", "a dict"),
    (10, "four-gpus", "work = (0, 1, 2, 4)", "slowest pair"),
    (10, "four-gpus", "work = (0, 3)", "different ones"),
    (10, "renumbering", "def work(v, gpu):\n    return sorted(v.get('CUDA_VISIBLE_DEVICES', '')).index(str(gpu))", ""),
    (10, "efficiency", "work = {1: 1.0, 2: 1.8, 4: 3.4, 8: 6.5}", "the speed-up"),
    (11, "eight-ranks", "work = '#SBATCH --nodes=2\\n#SBATCH --ntasks-per-node=4\\nsrun python train.py'", "SLURM's own differ"),
    (11, "eight-ranks", """
work = '''#SBATCH -N 2
#SBATCH --ntasks-per-node=4
srun bash -c 'MASTER_ADDR=$(hostname) MASTER_PORT=1 WORLD_SIZE=8 RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python train.py'
'''
""", "before srun"),
    (11, "who-am-i", """
def work(v):
    rank = int(v.get("RANK", v.get("OMPI_COMM_WORLD_RANK", v.get("SLURM_PROCID", 0))))
    return rank, int(v.get("WORLD_SIZE", 1)), int(v.get("LOCAL_RANK", 0))
""", "OMPI_COMM_WORLD_SIZE"),
    (11, "time-on-the-wire", "def work(p, b, gbit, n, us):\n    return p * b / (gbit * 1e6) + n * us / 1000", "a byte has eight"),
    (11, "time-on-the-wire", "def work(p, b, gbit, messages, us):\n    return p * b * 8 / (gbit * 1e6)", "latency once"),
]  # fmt: skip


def seen_of(number, exercise, source, name="work"):
    """The check of that exercise on what the source defines."""
    form = named(chapter_of(number).exercises, exercise, "exercise")
    scope = {"torch": torch}
    exec(source, scope)
    first = (recorded_topology(),) if form.check == "best_joined" else ()
    return check_named(form.check)(*first, scope[name], **form.needs)


def recorded_topology():
    import accel

    return accel.topology(text=accel.lab(10).recorded("eight-gpus").text)


def starting_point(number, exercise):
    """The cell before the check's, and the name that the check's cell passes on last."""
    (path,) = LABS.glob(f"{number:02}_*.ipynb")
    code = [cell["source"] for cell in nbformat.read(path, as_version=4).cells if cell["cell_type"] == "code"]
    at = next(at for at, source in enumerate(code) if source.startswith(f'lab.check("{exercise}"'))
    return code[at - 1], code[at].rstrip(")").rpartition(" ")[2]


@pytest.mark.parametrize(("number", "exercise"), RIGHT, ids=str)
def test_a_solution_passes(number, exercise):
    found = seen_of(number, exercise, RIGHT[number, exercise])
    assert found.passed, found
    assert found.figures


@pytest.mark.parametrize(("number", "exercise"), [*RIGHT, (9, "let-them-meet")], ids=str)
def test_the_starting_point_runs_and_does_not_pass(number, exercise):
    source, name = starting_point(number, exercise)
    found = seen_of(number, exercise, source, name)
    assert not found.passed
    assert found.saw
    assert found.asked


@pytest.mark.parametrize(
    ("number", "exercise", "source", "hint"),
    WRONG,
    ids=[f"{n}-{e}-{at}" for at, (n, e, *_) in enumerate(WRONG)],
)
def test_a_usual_mistake_fails_with_its_hint(number, exercise, source, hint):
    found = seen_of(number, exercise, source)
    assert not found.passed
    assert hint in found.hint


@pytest.mark.parametrize(("number", "exercise"), RIGHT, ids=str)
def test_work_of_another_kind_is_refused_with_what_to_pass(number, exercise):
    with pytest.raises(AccelError, match="Pass"):
        seen_of(number, exercise, "work = None")


def test_processes_with_the_right_variables_meet_and_add_up():
    from accel.labs.exercises.of_ranks import ranks_meet

    def variables(rank, ranks, port):
        return {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}

    assert ranks_meet(variables, ranks=2).passed


@pytest.mark.parametrize(
    ("number", "exercise"),
    [
        (1, "updates"),
        (2, "the-whole-job"),
        (3, "earned-back"),
        (8, "time-of-a-step"),
        (11, "time-on-the-wire"),
    ],
    ids=str,
)
@pytest.mark.parametrize("given", ["float('nan')", "float('inf')", "True", "'7'", "None or [7]", "1 / 0"])
def test_what_is_no_number_is_no_answer(number, exercise, given):
    assert not seen_of(number, exercise, f"def work(*values):\n    return {given}").passed


def test_a_function_that_never_ends_does_not_pass(monkeypatch):
    monkeypatch.setattr(seen, "MOST_S", 0.2)
    endless = "def work(*times):\n    while True:\n        try:\n            pass\n        except Exception:\n            pass"
    found = seen_of(3, "earned-back", endless)
    assert not found.passed
    assert "had not ended after 0.2 s" in found.saw


def test_a_branch_that_looks_at_each_row_is_another_function():
    source = (
        "def work(x):\n    y = x.relu()\n    return torch.where(y.mean(-1, keepdim=True) > 0.3, y * 2, y) - 1"
    )
    assert not seen_of(3, "one-graph", source).passed


def test_every_exercise_of_the_course_has_its_check_and_every_check_an_exercise():
    used = {each.check for number in range(1, 12) for each in chapter_of(number).exercises}
    assert used == set(CHECKS)

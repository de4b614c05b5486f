"""The experiments behind the course's tables, chapter by chapter, as this machine can run them: rows next to the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.labs import CNN, load_dataset, load_model

NO_GPU = "needs a GPU; this machine has none"
LEARNING_RATE = 1e-3  # the course's 1e-5 learns nothing from 1,600 digits in a few epochs


@dataclass(frozen=True)
class Row:
    """One figure of the course: the reference, and what was measured here, or why it was not."""

    chapter: int
    figure: str
    reference: str
    here: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class Scale:
    """How much is trained: images of the data set, epochs, rounds of a comparison."""

    images: int
    epochs: int
    rounds: int


QUICK, FULL = Scale(256, 1, 1), Scale(1600, 5, 3)


def parameters(scale: Scale) -> Iterator[Row]:
    """Chapters 1 and 6: numbers of parameters, which are the same on every machine."""
    models: dict[str, tuple[int, Callable[[], nn.Module]]] = {
        "CNN on 28×28 grey images": (1_630_090, CNN),
        "CNN with one more linear layer, 256 wide": (1_758_858, lambda: CNN(extra_layer=256)),
        "CNN without bias": (1_629_472, lambda: CNN(bias=False)),
        "CNN on 32×32 colour images": (2_122_186, lambda: CNN(channels=3, size=32)),
        "DenseNet121": (7_978_856, lambda: load_model("densenet121", classes=1000)),
    }
    for name, (reference, make) in models.items():
        count = sum(each.numel() for each in make().parameters())
        yield Row(1, f"parameters: {name}", f"{reference:,}", f"{count:,}")


def operations(scale: Scale) -> Iterator[Row]:
    """Chapter 1: the share of each operation in the CNN's forward, and the operations of its graph."""
    from accel.workbench import Workbench
    from benchmarks.course_ops import REFERENCE, course_notebook, measure

    shares = measure(rounds=2 * scale.rounds, batches=10)
    for op, reference in REFERENCE.items():
        yield Row(
            1,
            f"share of {op} in the forward",
            f"{100 * reference:.1f} %",
            f"{100 * median(shares.get(op, [0.0])):.1f} %",
        )
    notebook = course_notebook(1)
    workbench = Workbench(notebook, spare_workers=0)
    graph = workbench.graph(notebook["model"], notebook["batches"][0])
    workbench.close()
    types = graph.op_types  # type: ignore[union-attr]
    yield Row(1, "operations of the graph", "Conv, MaxPool, Relu, Reshape, Gemm", ", ".join(types))


def application(scale: Scale) -> Iterator[Row]:
    """Chapter 2: bias off and larger batches; epochs in turns, so that a slow moment meets all."""
    references = {
        "baseline": "148 s, 83.99 %",
        "bias off": "125 s, 83.76 %",
        "batch 128": "96 s, 82.14 %",
        "batch 256": "76 s, 80.01 %",
    }
    trainings = {
        "baseline": Training(CNN(), 64, scale), "bias off": Training(CNN(bias=False), 64, scale),
        "batch 128": Training(CNN(), 128, scale), "batch 256": Training(CNN(), 256, scale),
    }  # fmt: skip
    in_turns(trainings, scale.epochs)
    for name, training in trainings.items():
        here = f"{training.seconds:.2f} s an epoch, {100 * training.accuracy():.1f} %"
        yield Row(2, f"CNN, {name}", references[name], here)
    yield Row(2, "CNN, Intel OpenMP", "106 s, 83.25 %", why_not="needs intel-openmp before torch starts")


def compiling(scale: Scale) -> Iterator[Row]:
    """Chapter 3: eager against compiled."""
    eager, compiled = Training(CNN(), 64, scale), Training(CNN(), 64, scale)
    try:
        compiled.model.compile()
        first = compiled.epoch()
    except RuntimeError as error:  # a compiler that is missing or fails is an answer here
        why = f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"
        yield Row(3, "CNN on CPU, eager against compiled", "118 s against 140 s", why_not=why)
    else:
        compiled.times.clear()
        in_turns({"eager": eager, "compiled": compiled}, scale.epochs)
        here = f"{eager.seconds:.2f} s against {compiled.seconds:.2f} s an epoch, the first {first:.1f} s"
        yield Row(3, "CNN on CPU, eager against compiled", "118 s against 140 s", here)
    yield Row(3, "DenseNet121 on an A100, eager against compiled", "2,264 s against 1,443 s", why_not=NO_GPU)
    import torch._dynamo

    yield Row(
        3,
        "backends of torch.compile",
        "inductor, cudagraphs, aot_ts_nvfuser",
        ", ".join(torch._dynamo.list_backends()),
    )


def threads(scale: Scale) -> Iterator[Row]:
    """Chapter 4: unbound against bound threads, each in a process of its own, in turns."""
    cores = len(os.sched_getaffinity(0))
    bound = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
    runs: dict[str, list[float]] = {"default": [], "bound": []}
    for _ in range(scale.rounds):
        runs["default"].append(_epoch_elsewhere(cores, {}, scale))
        runs["bound"].append(_epoch_elsewhere(cores, bound, scale))
    here = f"{median(runs['default']):.2f} s against {median(runs['bound']):.2f} s an epoch ({cores} threads)"
    yield Row(4, "CNN, 16 threads: GNU OpenMP, default against bound", "178 s against 114 s", here)
    yield Row(4, "CNN, 16 threads: Intel OpenMP", "102 s", why_not="needs intel-openmp before torch starts")
    yield Row(
        4,
        "DenseNet121: Intel OpenMP, with IPEX",
        "1,318 s, 946 s",
        why_not="needs intel-extension-for-pytorch, which needs torch 2.8",
    )


def pipeline(scale: Scale) -> Iterator[Row]:
    """Chapter 5: the seven-step pipeline without and with worker processes."""
    from benchmarks.pipeline import Row as Way
    from benchmarks.pipeline import measure

    ways = [Way("", 0, False), Way("loader_workers(n=2)", 2, False)]
    rows = measure(ways, images=scale.images // 4, batch_size=8, rounds=scale.rounds, budget_s=10.0)
    plain, workers = (f"{row.epoch_s:.2f} s" if row.epoch_s else row.why_not for row in rows)
    yield Row(5, "seven-step pipeline: plain against workers", "1,892 s against 846 s (8 workers, pinned, A100)",
              f"{plain} against {workers} an epoch (2 workers)")  # fmt: skip
    yield Row(5, "pinned memory", "in the 846 s", why_not=NO_GPU)


def pruning(scale: Scale) -> Iterator[Row]:
    """Chapter 6: filters taken out."""
    from benchmarks.pruning import PERCENTS, REFERENCE, Pruned, figures_of, run_seed

    found = [Pruned(percent) for percent in PERCENTS]
    run_seed(0, scale.epochs, scale.images // 64, found)
    figures = figures_of(found)
    for percent in PERCENTS:
        seconds, accuracy = REFERENCE[percent]
        here_s, right, count = (
            figures[f"{name}_at_{percent}"] for name in ("seconds", "accuracy", "parameters")
        )
        here = f"{here_s:.2f} s an epoch, {100 * right:.1f} %, {count:,.0f} parameters"
        yield Row(6, f"{percent} % of the filters pruned", f"{seconds} s, {100 * accuracy:.2f} %", here)


def formats(scale: Scale) -> Iterator[Row]:
    """Chapter 7: bits of the formats, and mixed precision."""
    import accel

    bits = {"fp32": "8/23", "fp64": "11/52", "fp16": "5/10", "bf16": "8/7", "tf32": "8/10"}
    known = {row.name: row for row in accel.number_formats().formats}
    for name, reference in bits.items():
        yield Row(
            7,
            f"exponent/fraction bits of {name}",
            reference,
            f"{known[name].exponent_bits}/{known[name].fraction_bits}",
        )
    for name, reference in {"fp32": "811 s", "bf16": "754 s", "fp16": "486 s"}.items():
        yield Row(7, f"EfficientNet on an A100, 50 epochs, {name}", f"{reference}, 51 %", why_not=NO_GPU)
    half, whole = Training(CNN(), 64, scale, autocast=True), Training(CNN(), 64, scale)
    in_turns({"fp32": whole, "bf16": half}, scale.epochs)
    yield Row(
        7,
        "CNN on this CPU, fp32 against bf16 by autocast",
        "not in the course",
        f"{whole.seconds:.2f} s against {half.seconds:.2f} s an epoch",
    )


def instances(scale: Scale) -> Iterator[Row]:
    """Chapter 9: threads, and instances × threads."""
    from accel.workbench import Workbench
    from accel.workbench.rank_sweep import sweep_of
    from benchmarks.sweep import CELL, MAKE

    namespace: dict[str, Any] = {"__name__": "__main__", "EPOCHS": scale.epochs}
    exec(MAKE, namespace)
    workbench = Workbench(namespace, spare_workers=0)
    try:
        sweep = sweep_of(
            workbench, CELL, processes=(1, 2), threads=(1, 2), rounds=1, steps=8 if scale is QUICK else None
        )
    finally:
        workbench.close()
    references = {"1 × 1": "311 s", "1 × 2": "189 s", "2 × 1": "2×8: 58 s, 44.01 % (Gloo)", "2 × 2": ""}
    for row in sweep.rows:
        label = f"{row.configuration.processes} × {row.configuration.threads}"
        quality = "" if row.quality is None else f", {100 * row.quality:.1f} %"
        here = f"{row.seconds:.2f} s{quality}, {row.samples_per_s:,.0f} samples/s" if row.runs else ""
        yield Row(9, f"CNN, {label} threads", references.get(label, ""), here, row.reason)
    yield Row(9, "4×4 and 8×2, Gloo; oneCCL", "45 s, 37 s; 53, 42, 35 s", why_not="needs 16 cores")


def topology(scale: Scale) -> Iterator[Row]:
    """Chapters 10 and 11: which GPUs to use together, of the course's matrix; what needs GPUs has a reason."""
    import accel

    matrix = accel.topology(text=accel.lab(10).recorded("eight-gpus").text)
    yield Row(10, "best pair of the recorded matrix", "0–3, 0–4, 1–2, …", str(matrix.best_gpus(2)))
    for count, seconds, accuracy in ((1, 707, 78.76), (2, 393, 74.82), (4, 208, 70.72), (8, 109, 68.82)):
        yield Row(10, f"EfficientNet, {count} A100", f"{seconds} s, {accuracy} %", why_not=NO_GPU)
    yield Row(
        11,
        "two machines of 8 A100",
        "109 s → 64 s, 68.82 % → 63.73 %",
        why_not="needs two machines with GPUs",
    )


class Training:
    """One training of digits: its epochs' seconds, and its accuracy on those held out."""

    def __init__(self, model: nn.Module, batch: int, scale: Scale, *, autocast: bool = False) -> None:
        torch.manual_seed(0)
        self.model, self.autocast, self.times = model, autocast, list[float]()
        digits = load_dataset("digits")
        images = (digits.images[: scale.images].float() - digits.mean) / digits.deviation
        self.loader = DataLoader(
            TensorDataset(images, digits.labels[: scale.images]), batch_size=batch, shuffle=True
        )
        self.optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    @property
    def seconds(self) -> float:
        """The median epoch."""
        return median(self.times)

    def epoch(self) -> float:
        """Train one."""
        began = time.perf_counter()
        for images, labels in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                loss = nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            self.optimizer.step()
        self.times.append(time.perf_counter() - began)
        return self.times[-1]

    def accuracy(self) -> float:
        """On the 197 digits held out."""
        held = load_dataset("digits", train=False)
        with torch.no_grad():
            guessed = self.model((held.images.float() - held.mean) / held.deviation).argmax(1)
        return (guessed == held.labels).double().mean().item()


def in_turns(trainings: dict[str, Training], epochs: int) -> None:
    """Train so many epochs of each, in turns, forwards and backwards."""
    for number in range(epochs):
        for training in list(trainings.values())[:: -1 if number % 2 else 1]:
            training.epoch()


def _epoch_elsewhere(count: int, variables: dict[str, str], scale: Scale) -> float:
    """Seconds of an epoch in a fresh process, where OpenMP reads its variables; the first epoch is not counted."""
    code = (
        "from benchmarks.course_experiments import *\nimport json\n"
        f"training = Training(CNN(), 64, Scale({scale.images}, 1, 1)); training.epoch()\n"
        "print(json.dumps(training.epoch()))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": str(count)} | variables
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(json.loads(run.stdout.splitlines()[-1]))


EXPERIMENTS: tuple[Callable[[Scale], Iterator[Row]], ...] = (
    parameters, operations, application, compiling, threads, pipeline, pruning, formats, instances, topology,
)  # fmt: skip

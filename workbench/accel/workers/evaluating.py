"""In a worker, between two steps: how good is the model now, on held-out data?

Training must not notice: modes of all modules, buffers, random numbers and the loaders' generators are put back, and the
step that follows is timed from its own beginning. The model is called as the plan left it (autocast, compiled, pruned), so
the quality is what the user would get.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from accel.errors import AccelError
from accel.processes.failure import Failed, failure_of
from accel.processes.process_tree import forked_children, signal_all
from accel.workers.held_out_metrics import accuracy_on, loss_on
from accel.workers.messages import Evaluated, QualityQuestion
from accel.workload.generators import generator_states, restore_generators
from accel.workload.workload import look_up


class Evaluator:
    """Answers the kernel's Evaluate; an error in the user's metric is an answer too, so that no `except` of the cell sees it.

    >>> Evaluator(question, namespace, presented, filename)()
    Evaluated(value=0.93, seconds=0.21)
    """

    def __init__(
        self, question: QualityQuestion, namespace: dict[str, Any], presented: list[Any], filename: str, *,
        around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    ) -> None:  # fmt: skip
        self._question, self._namespace, self._presented = question, namespace, presented
        self._filename, self._around = filename, around
        self._left_running: set[int] = set()  # worker processes of loaders that an earlier evaluation started

    def __call__(self) -> Evaluated | Failed:
        started = time.perf_counter()
        try:
            model = self._model()
            value = self._value(model) if model is not None else None
        except BaseException as error:
            return failure_of(error, self._filename)
        return Evaluated(value, time.perf_counter() - started, has_model=model is not None)

    def _model(self) -> Any:
        """The model as it is now: of its name, or else the last one that the cell built."""
        import torch

        named = look_up(self._namespace, self._question.model)
        if isinstance(named, torch.nn.Module):
            return named
        found = [model for replica in self._presented for model in replica.models.values()]
        alike = [model for model in found if type(model).__qualname__ == self._question.model_class]
        return next(reversed(alike or found), None)

    def _value(self, model: Any) -> float | None:
        import torch

        with self._training_undisturbed(model), self._awake(), self._around(), torch.no_grad():
            value = measured_quality(self._question, self._namespace, model)
            if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()
        return value if value == value and abs(value) != float("inf") else None

    @contextlib.contextmanager
    def _training_undisturbed(self, model: Any) -> Iterator[None]:
        """Everything that evaluating moves is put back: modes, buffers (BatchNorm's averages), random numbers."""
        models = [each for replica in self._presented for each in replica.models.values()]
        models.append(model)
        modes = {module: module.training for each in models for module in each.modules()}
        buffers = [(buffer, buffer.clone()) for each in models for buffer in each.buffers()]
        generators, states = self._generators(), generator_states()
        states_of_loaders = [generator.get_state() for generator in generators]
        try:
            for each in models:
                each.eval()
            yield
        finally:
            import torch

            for module, was_training in modes.items():
                module.training = was_training
            with torch.no_grad():
                for (
                    buffer,
                    before,
                ) in buffers:  # not told apart by `_version`: batch norm's kernel leaves it as it is
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)
            restore_generators(states)
            for generator, state in zip(generators, states_of_loaders, strict=True):
                generator.set_state(state)

    def _generators(self) -> list[Any]:
        """Generators that belong to a loader, or to the notebook: reading held-out data draws from them."""
        import torch

        found: list[Any] = [v for v in self._namespace.values() if isinstance(v, torch.Generator)]
        for loader in self._loaders():
            sampler = getattr(loader.batch_sampler, "sampler", None)
            for holder in (loader, loader.sampler, sampler):
                found.append(getattr(holder, "generator", None))
        return list({id(each): each for each in found if isinstance(each, torch.Generator)}.values())

    def _loaders(self) -> list[Any]:
        from torch.utils.data import DataLoader

        named = [look_up(self._namespace, self._question.held_out), *self._namespace.values()]
        seen = [each for replica in self._presented for each in replica.loaders.values()]
        return [each for each in [*named, *seen] if isinstance(each, DataLoader)]

    @contextlib.contextmanager
    def _awake(self) -> Iterator[None]:
        """Worker processes of other loaders than the training's run while evaluating: the gate has frozen all.

        Those of the training's would fill its queue for free.
        """
        training = look_up(self._namespace, self._question.training_loader)
        others = [loader for loader in self._loaders() if loader is not training]
        pids = {
            process.pid
            for loader in others
            for process in getattr(loader._iterator, "_workers", ())
            if process.is_alive()
        }
        before = forked_children()
        awake = (pids | self._left_running) & before
        signal_all(awake, signal.SIGCONT)
        try:
            yield
        finally:
            self._left_running = (self._left_running | (forked_children() - before)) & forked_children()
            signal_all(awake | self._left_running, signal.SIGSTOP)


def measured_quality(question: QualityQuestion, namespace: dict[str, Any], model: Any) -> float:
    """The metric's value for a model that is in evaluation mode.

    >>> measured_quality(question, namespace, model)
    0.93
    """
    loader = look_up(namespace, question.held_out)
    if not question.is_built_in:
        function = look_up(namespace, question.metric)
        assert function is not None
        return _number(function(*[model, loader][: question.arguments]), question.metric)
    criterion = look_up(namespace, question.criterion)
    if question.metric == "accuracy":
        return accuracy_on(model, loader, ignored=getattr(criterion, "ignore_index", -100))
    return loss_on(model, loader, criterion)


def _number(value: Any, metric: str) -> float:
    """The metric as a float; what is not one number is refused."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        if not isinstance(value, (str, bytes)):
            return float(value)
    raise AccelError(
        f"The metric {metric}",
        because=f"it returned {type(value).__name__} instead of one number",
        do="Let it return a single number, such as the share of right answers, from 0 to 1.",
    )

"""The cell's loops over loaders: those that train get each rank's part, all others the whole, the same on every rank."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from accel.distributed.data_parallel.gradient_readers import is_of_library
from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.data_parallel.loop_code import trains_by_code
from accel.distributed.data_parallel.shared_loader import SharedLoader
from accel.distributed.data_parallel.shares import BatchMeans, Share
from accel.distributed.data_parallel.split_loaders import Split, check_alike, split_of
from accel.distributed.data_parallel.whereabouts import Whereabouts
from accel.errors import AccelError
from accel.processes.failure import HINT

_UNNAMED = "a DataLoader"


class SharedLoops:
    """What `DataLoader.__iter__` and `__len__` do while the cell runs.

    >>> loops = SharedLoops(lineages, rank=0, world_size=2, batch="global", named=[], namespace=namespace, on_batch=print)

    `named` loaders are shared out; where none is named, each that is iterated with gradients on and a model in training mode.
    `weight` is that of the batch which was given out last, and `is_last` whether its epoch has no further one.
    """

    def __init__(
        self, lineages: Lineages, *, rank: int, world_size: int, batch: BatchMeans, named: list[str],
        namespace: dict[str, Any], on_batch: Callable[[Any | None], None],
        before_share: Callable[[Any], None] = lambda loader: None, on_evaluation: Callable[[bool], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._lineages, self._rank, self._world_size, self._batch = lineages, rank, world_size, batch
        self._named, self._namespace, self._on_batch = named, namespace, on_batch
        self._before_share, self._on_evaluation = before_share, on_evaluation
        self._shared: dict[int, SharedLoader] = {}
        self._only_watches = self._is_over = False
        self._seen_alike: set[int] = set()  # of the shared ones, those that all ranks were seen to have alike
        self._in_part: list[
            Any
        ] = []  # loaders of the loops that this rank goes through with a part of its own
        self._evaluated: set[int] = set()  # loaders whose last loop has no training in its code
        self._trained: dict[int, Any] = {}  # loaders whose loops ran a backward pass in this run of the cell
        self._used: set[int] = set()  # ids of shared loaders that this run of the cell used
        self.models: list[Any] = []  # that were found in use
        self.weight, self.is_last, self.has_share = 1.0, False, False
        self._calls = [0, 0]  # of models, without gradients and with them
        self.whereabouts = Whereabouts()
        self.backwards = 0  # passes so far, counted by whoever sees them
        self._is_batch_whole = False  # that one: all ranks have it
        self._cut: Any = None  # the loader of that one, where each rank has a part of it
        self._whole_open: list[Any] = []  # and loaders that every rank goes through whole
        self.trained_whole: set[str] = (
            set()
        )  # of these, the names of those in whose loops an optimizer took steps
        self.unsplit: set[str] = set()  # loaders that a cell which distributes itself trained with, whole

    def iterating(self, original: Any) -> Any:
        """What takes the place of `DataLoader.__iter__`."""

        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:
            if self._is_over:
                return original(loader)
            if self._only_watches or (self._is_alone and not self._lineages.batches_over):
                trains = self._trains_with(loader, sys._getframe(1))
                if trains and self._only_watches:
                    self._look_at(loader)
                batches = original(loader)
                return _Batches(self._counted(batches) if trains else self._apart(batches, loader), loader)
            if not self._is_training(loader, sys._getframe(1)):
                if (shared := self._shared.get(id(loader))) is not None and shared.sampling is not None:
                    shared.sampling.is_shared = False
                return _Batches(self._apart(self._alike(original, loader), loader), loader)
            if self._world_size > 1 and (split := split_of(loader)) is not None:
                self._check(split, loader)
                self._lineages.part_ways()
                own = ((batch, Share(None), False) for batch in self._alike(original, loader))
                return _Batches(self._own_part(own, loader), loader)
            shared = self._share(loader)
            if shared.sampling is not None:
                shared.sampling.is_shared = True
            self._lineages.part_ways()
            return _Batches(self._own_part(shared.batches(original), loader), loader)

        return __iter__

    def counting(self, original: Any) -> Any:
        """What takes the place of `DataLoader.__len__`: the steps of an epoch, where a loader trains."""

        @functools.wraps(original)
        def __len__(loader: Any) -> int:
            shared = self._shared.get(id(loader))
            is_plain = self._is_alone or self._only_watches or self._is_over
            if (
                shared is not None
                or is_plain
                or id(loader) in self._evaluated
                or not self._trains_with(loader, sys._getframe(1))
                or split_of(loader) is not None
            ):
                return self._steps(original(loader), shared)
            self._before_share(loader)
            briefly = self._shared_out(
                loader
            )  # only to count: what is yet to be changed of it comes before its first loop
            try:
                return self._steps(original(loader), briefly)
            finally:
                briefly.close()

        return __len__

    @property
    def _is_alone(self) -> bool:
        return self._world_size == 1 and not self._lineages.stands_for_ranks

    def _steps(self, count: int, shared: SharedLoader | None) -> int:
        is_in_order = shared is not None and shared.sampling is None
        return count // self._world_size if is_in_order else count  # in order: each full round is a step

    def only_watch(self) -> None:
        """The cell shares out by itself: loaders that were shared out are given back, and others only looked at."""
        self._only_watches = True
        self._give_back()
        self._shared.clear()

    def check_data(self) -> None:
        """Before the first pass over a loader: what a cell that knows its rank made of the data may be its own part already."""
        for loader in self._in_part[-1:]:
            if id(loader) in self._shared and id(loader) not in self._seen_alike:
                self._seen_alike.add(id(loader))
                check_alike(loader, self.name_of(loader))

    def _look_at(self, loader: Any) -> None:
        split = split_of(loader)
        if split is None:
            self.unsplit.add(self.name_of(loader))
        elif split.parts == self._world_size:
            split.check(self.name_of(loader), rank=self._rank, world_size=self._world_size)

    def _check(self, split: Split, loader: Any) -> None:
        name = self.name_of(loader)
        split.check(name, rank=self._rank, world_size=self._world_size)
        if self._batch == "global":
            raise AccelError(
                "--batch global",
                because=f"{name} is shared out already, by its {split.by}, and gives each rank batches of its own",
                do="Leave --batch out.",
            )

    def run_begins(self) -> None:
        """The cell is run again: loaders that the run before did not use are given back, and need not live any longer."""
        for key in self._shared.keys() - self._used:
            shared = self._shared.pop(key)
            shared.close()
            shared.loader._iterator = None  # of workers that wait for another epoch of this rank's part
        self._used.clear()
        self._trained.clear()

    def close(self) -> None:
        """Give the loaders back as they were, and let every loop be as it is: what the cell patched may call us still."""
        self._is_over = True
        self._give_back()

    def _give_back(self) -> None:
        for shared in self._shared.values():
            shared.close()

    def _share(self, loader: Any) -> SharedLoader:
        self._used.add(id(loader))
        if id(loader) not in self._shared:
            self._before_share(loader)
            self._shared[id(loader)] = self._shared_out(loader)
        return self._shared[id(loader)]

    def _shared_out(self, loader: Any) -> SharedLoader:
        return SharedLoader(
            loader, self._lineages, rank=self._rank, world_size=self._world_size, batch=self._batch
        )

    def _alike(self, original: Any, loader: Any) -> Iterator[Any]:
        """The whole loader: what sampling and transforms draw is alike on all ranks, and training goes on from there."""
        with self._lineages.shared():  # at once, as in `SharedLoader.batches`
            batches = iter(original(loader))
        return self._drawn_alike(batches)

    def _drawn_alike(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self._lineages.shared():
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    def _apart(self, batches: Iterator[Any], loader: Any) -> Iterator[Any]:
        """Batches that are not trained on: neither they nor the time that they take are the training's."""
        self._on_evaluation(True)
        self._whole_open.append(loader)
        try:
            yield from batches
        finally:
            self._whole_open.remove(loader)
            self._on_evaluation(False)

    @property
    def is_in_part(self) -> bool:
        """Whether this rank goes through a part of its own just now."""
        return bool(self._in_part)

    def has_own_samples(self) -> bool:
        """Whether other ranks have other samples than the ones that are computed with just now, which we shared out."""
        return not self._only_watches and self.is_in_part and not (self._whole_open or self._is_batch_whole)

    @property
    def whole(self) -> Any:
        """The loader that every rank goes through whole just now, where no other is gone through in parts."""
        return self._whole_open[-1] if self._whole_open and not self._in_part else None

    def before_step(self) -> None:
        """An optimizer is about to step; raises AccelError where a loop that was shared out is not any more."""
        loader = self.whole
        if loader is None or self._named:
            return
        if id(loader) in self._shared:
            raise self.taken_for_evaluation(loader)
        self.trained_whole.add(self.name_of(loader))

    def taken_for_evaluation(self, loader: Any) -> AccelError:
        """What is said where every rank would train on all of this loader, alike."""
        name = self.name_of(loader)
        return AccelError(
            f"Training in a loop over {name} on {self._world_size} ranks",
            because="the loop began with all models in eval mode or with gradients off, so accel treated it as an evaluation "
            "and gave every rank all batches: every rank would train on the same ones",
            do="Call model.train() and turn gradients on before the loop, or name the loaders that train: --loaders "
            f"{'train_loader' if name == _UNNAMED else name}.",
        )

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._on_batch(batch)
            yield batch
            self._on_batch(None)

    def called(self, *, with_gradients: bool) -> None:
        """A model was called."""
        self._calls[with_gradients] += 1

    def explain(self, error: object) -> None:
        """Say with an error that names the size of a whole batch that each rank has a part of it."""
        loader = self._cut if self._batch == "global" and self._world_size > 1 else None
        if loader is None or not isinstance(error, (RuntimeError, ValueError, IndexError, AssertionError)):
            return
        shared = self._shared.get(id(loader))
        inner = shared.sampling.inner if shared is not None and shared.sampling is not None else None
        size = getattr(inner, "batch_size", None)
        if isinstance(size, int) and re.search(rf"\b{size}\b", str(error)):
            hint = (
                f"--batch global gives each rank a part of every batch of {self.name_of(loader)}, here "
                f"{size // self._world_size} of {size} samples: read the batch size from the batch itself "
                "(inputs.shape[0]), or use --batch per-rank"
            )
            setattr(error, HINT, hint)

    def _own_part(self, batches: Iterator[tuple[Any, Share, bool]], loader: Any) -> Iterator[Any]:
        before, calls = self.backwards, list(self._calls)
        self.has_share = True
        self._in_part.append(loader)
        try:
            with self.whereabouts.in_loop(self.name_of(loader)) as loop:
                for batch, share, is_last in batches:
                    self.weight, self.is_last, self._is_batch_whole = share.weight, is_last, share.is_whole
                    self._cut = None if share.is_whole else loader
                    self.whereabouts.took(loop, self.backwards)
                    self._on_batch(batch)
                    yield batch
                    evaluates = self._calls[True] == calls[True] and self._calls[False] > calls[False]
                    if self.backwards == before and evaluates:
                        raise self._not_trained(
                            loader, "its first batches went through a model without gradients"
                        )
                    self._on_batch(None)
        finally:
            self._in_part.remove(loader)
            if self.backwards > before:
                self._trained[id(loader)] = loader
        self.weight, self.is_last, self._cut = 1.0, False, None
        if self.backwards == before:
            raise self._not_trained(
                loader, "no backward pass was seen in it (accel does not see gradients of torch.func)"
            )

    def _not_trained(self, loader: Any, because: str) -> AccelError:
        names = {name for name, value in self._namespace.items() if type(value) is type(loader)}
        trained = ",".join(sorted(names - {self.name_of(loader)})) or "NAME"
        return AccelError(
            f"A loop over {self.name_of(loader)}, of which each rank reads a part",
            because="the loop began with gradients on and a model in training mode, so it counted as a training loop, but "
            f"{because}, so the loop's results cover only this rank's part of the data",
            do="To train, call loss.backward() in the loop. To evaluate, call model.eval() before the loop, or put the "
            f"whole loop under torch.no_grad(), or name the loaders that train: --loaders {trained}.",
        )

    def _is_training(self, loader: Any, caller: FrameType) -> bool:
        """Whether the loop that is about to begin trains: as its code says, else by the modes that it finds."""
        import torch

        by_code = trains_by_code(caller) if torch.is_grad_enabled() and not self._named else None
        self._evaluated.discard(id(loader))
        if by_code is False:
            self._evaluated.add(id(loader))
        if by_code is None and id(loader) in self._trained and is_of_library(caller.f_code):
            # Grad mode decides: a library may call train() in each step, and evaluate with this loader after an epoch.
            return torch.is_grad_enabled()
        return self._trains_with(loader, caller) if by_code is None else by_code

    def _trains_with(self, loader: Any, caller: FrameType | None) -> bool:
        """Whether a loop over this loader trains: `--loaders` decides; else gradients must be on and a model, if any, training.

        Models are those called so far, the notebook's variables, and, if these are all in eval mode, the local variables of the
        notebook's functions on the call stack.
        """
        import torch

        if self._named:
            return self.name_of(loader) in self._named
        known = [*self.models, *_models_in(self._namespace)]
        while caller is not None and not any(model.training for model in known):
            if caller.f_globals is self._namespace and caller.f_code.co_flags & inspect.CO_NEWLOCALS:
                known += _models_in(caller.f_locals)
            caller = caller.f_back
        trainable = [model for model in known if any(p.requires_grad for p in model.parameters())]
        models = trainable or known  # one may hold its layers in a list, where torch does not see them
        return torch.is_grad_enabled() and (not models or any(model.training for model in models))

    def name_of(self, loader: Any) -> str:
        """The notebook's name for it."""
        return next((name for name, value in self._namespace.items() if value is loader), _UNNAMED)


class _Batches:
    """An iterator over a rank's batches that knows how many there are."""

    def __init__(self, batches: Iterator[Any], loader: Any) -> None:
        self._batches, self._loader = batches, loader

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


def _models_in(namespace: Mapping[str, Any]) -> list[Any]:
    from torch import nn
    from torch.nn.modules.loss import _Loss

    modules = [value for value in list(namespace.values()) if isinstance(value, nn.Module)]
    return [value for value in modules if not isinstance(value, _Loss)]

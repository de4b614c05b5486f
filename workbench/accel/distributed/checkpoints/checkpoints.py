"""Checkpoints of a cell while it trains on this rank, and its way back to where the newest was taken."""

from __future__ import annotations

import ast
import hashlib
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.cell_loops import CellLoops, with_loops_asking
from accel.distributed.cells.plain_values import as_it_was, plain_copy
from accel.distributed.checkpoints.checkpoint_contents import OWN, CellVariables, Contents
from accel.distributed.checkpoints.checkpoint_file import CheckpointFolder
from accel.errors import AccelError
from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.training_loop import after_step, wrap_iterator
from accel.units import counted
from accel.workload.exchanged_values import from_all_ranks, from_first_rank
from accel.workload.generators import generator_states, restore_generators

if TYPE_CHECKING:
    from accel.distributed.data_parallel.data_parallel import DataParallel
    from accel.distributed.ranks.rank_messages import RunRequest


class Checkpoints:
    """Entered inside a `DataParallel`: every so many steps rank 0 writes what all ranks need to go on.

    >>> with parallel, Checkpoints(request, parallel, namespace, rank=0, world_size=2) as checkpoints:
    ...     exec(compile(checkpoints.prepared(tree), filename, "exec"), namespace)
    ...     checkpoints.finish()

    One is taken where a `for` loop of the cell itself comes round, the innermost that a step was made in: then every line of its
    body has run. The cell is run from its top again; its loops lead it back there (`cell_loops.py`), and what its variables hold,
    and all random numbers, are put back before it goes on.
    """

    def __init__(
        self,
        request: RunRequest,
        parallel: DataParallel,
        namespace: dict[str, Any],
        *,
        rank: int,
        world_size: int,
    ) -> None:
        self._request, self._parallel, self._rank, self._world_size = request, parallel, rank, world_size
        self._cell = hashlib.sha256(request.source.encode()).hexdigest()
        self._variables = CellVariables(namespace, [*request.names, *request.writes])
        self._folder = CheckpointFolder(Path(request.options.checkpoint), keeps=request.options.keeps)
        self._found, self._mine = self._chosen()
        self._beginning = self._begin()
        self._loops = CellLoops(namespace, self, self._found["position"] if self._found else [])
        self._before = self._written_at = 0
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_put_back = False
        self._has_own_part = self._found is not None and rank < self._found["world_size"]
        self._patches, self._undo = AttributePatches(), ExitStack()

    @property
    def steps(self) -> int:
        """Optimizer steps, those before the checkpoint included."""
        return self._before + self._parallel.steps

    def __enter__(self) -> Checkpoints:
        after_step(self._patches, lambda optimizer, *_: self._optimizers.add(optimizer))
        wrap_iterator(self._patches, self._noting_iterators)
        self._undo.callback(self._patches.take_back)
        return self

    def _noting_iterators(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def __iter__(loader: Any) -> Any:
            batches = original(loader)
            if getattr(loader, "_iterator", None) is not batches:  # not one that is used again and again
                self._iterators.add(batches)
            return batches

        return __iter__

    def __exit__(self, *exc_info: object) -> None:
        self._undo.close()
        self._loops.close()
        self._note_trouble(self._folder.wait)

    def prepared(self, tree: ast.Module) -> ast.Module:
        """The cell with loops that can be led."""
        return with_loops_asking(tree)

    def finish(self) -> None:
        """The cell came to its end."""
        if self._loops.is_on_its_way:
            raise self._cannot_go_on("the cell came to its end without the loop that it was left in")
        if self.steps - self._written_at >= self._request.options.every:
            self._parallel.notes.append(
                f"No checkpoint was written after step {self._written_at}: one is taken where a for loop of the cell itself "
                "comes round, and from there on the steps were inside a function."
            )
        self._note_trouble(self._folder.wait)
        if self._rank == 0:
            self._note_trouble(self._folder.finish)

    # --- what the loops ask --------------------------------------------------------------------------------------------

    def loop_begins(self) -> dict[str, Any]:
        """Random numbers as they are before a loop, for the way back."""
        if not self.steps and not self._has_put_back:
            self._variables.training_begins()
        self._note_trouble(
            self._folder.wait
        )  # loader workers may be forked now: no thread of ours may be in the middle of something
        return {
            "random": self._parallel.lineages.states(), "generators": self._variables.generators(),
            "before": weakref.WeakSet(self._iterators), "drives": weakref.WeakSet(),
        }  # fmt: skip

    def first_item(self, entry: dict[str, Any]) -> None:
        """Iterators that were made for it are the loop's own."""
        entry["drives"] = weakref.WeakSet(each for each in self._iterators if each not in entry["before"])

    def skips(self) -> None:
        """What the lines on the way meet are the variables as they were left."""
        self._put_back(is_final=False)

    def replay_begins(self, taken: int) -> int:
        """The innermost loop begins as it did then; how many items it takes to come to where it was left."""
        assert self._found is not None
        lineages, drives = self._parallel.lineages, self._found["drives"]
        lineages.restore(as_it_was(self._mine["entry"]), is_mine=self._has_own_part)
        self._variables.set_generators(self._mine["generators"])
        if self._is_as_many(self._found) or not any(drives):
            return taken
        if any(drives[:-1]):
            raise self._cannot_go_on(
                "it has a loop inside a loop over batches, and was run on another number of ranks"
            )
        lineages.batches_over = taken * (
            self._found["world_size"] if self._request.options.batch == "per-rank" else 1
        )
        return 0

    def goes_on(self) -> None:
        """Everything is put back: the next item is the first one that was not trained on."""
        assert self._found is not None
        self._put_back(is_final=True)
        is_as_many, ranks, step = (
            self._is_as_many(self._found),
            self._found["world_size"],
            self._found["step"],
        )
        lineages, now = self._parallel.lineages, as_it_was(self._mine["now"])
        if not is_as_many:  # the epoch's order is drawn anew, from where it was drawn from then
            now["shared"] = lineages.states()["shared"]
        lineages.restore(now, is_mine=self._has_own_part)
        self._scale_on()
        self._before = step - self._parallel.steps
        self._written_at = step
        self._parallel.went_on()
        of = "" if is_as_many else f" that {counted(ranks, 'rank')} wrote"
        self._parallel.notes.append(
            f"It went on after step {step}, from a checkpoint{of} in {self._folder.path}."
        )

    def step_is_over(self, position: list[dict[str, Any]], entries: list[Any], targets: set[str]) -> None:
        """A loop comes round after a step."""
        self._parallel.lineages.batches_over = 0
        if self.steps - self._written_at < self._request.options.every:
            return
        self._check_whether_it_can_go_on(entries)
        entry = entries[-1]
        mine = {
            "entry": plain_copy(entry["random"]), "generators": entry["generators"],
            "now": plain_copy(self._parallel.lineages.states()), "variables": self._contents(targets),
            "loss_scale": _loss_scale(),
        }  # fmt: skip
        ranks = from_all_ranks(mine)
        self._written_at = self.steps
        if self._rank == 0:
            self._note_trouble(self._folder.wait)
            self._folder.write(
                {
                    "cell": self._cell, "batch": self._request.options.batch,
                    "plan": self._request.options.plan, "step": self.steps,
                    "world_size": self._world_size, "position": position, "drives": [bool(each["drives"]) for each in entries],
                    "beginning": plain_copy(self._beginning), "ranks": ranks,
                }
            )  # fmt: skip

    # --- in and out ------------------------------------------------------------------------------------------------------

    def _note_trouble(self, act: Callable[[], object]) -> None:
        """Training goes on without a checkpoint that cannot be written: its state is worth more. Said at once, and at the end."""
        try:
            act()
        except AccelError as error:
            if (note := f"Trained on all the same, but {error}") not in self._parallel.notes:
                self._parallel.notes.append(note)
                print(note, file=sys.stderr, flush=True)

    def _chosen(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The checkpoint to go on from, the same on all ranks, and this rank's part of it; rank 0 looks for it."""
        said: list[Any] = [None, None]
        if self._rank == 0:
            try:
                said[0] = self._folder.newest(self._parallel.notes)
            except AccelError as error:
                said[1] = (error.asked, error.because, error.do)
        found, trouble = from_first_rank(said)
        if trouble is not None:
            raise AccelError(trouble[0], because=trouble[1], do=trouble[2])
        if found is None:
            return None, {}
        if found["cell"] != self._cell or (found["batch"], found["plan"]) != (
            self._request.options.batch,
            self._request.options.plan,
        ):
            differs = (
                "another cell"
                if found["cell"] != self._cell
                else f"this cell with --batch {found['batch']}"
                + (f" --plan {found['plan']}" if found["plan"] else "")
            )
            raise AccelError(
                f"Going on from the checkpoints in {self._folder.path}",
                because=f"they are of {differs}",
                do="Name another folder, empty this one, or run that cell again as it was.",
            )
        ranks = found["ranks"]
        return found, ranks[self._rank if self._rank < len(ranks) else 0]

    def _is_as_many(self, found: dict[str, Any]) -> bool:
        """Whether the checkpoint is of as many ranks as there are now."""
        return int(found["world_size"]) == self._world_size

    def _begin(self) -> Any:
        """Random numbers at the top of the cell: what the cell makes there it makes again."""
        if self._found is None:
            return generator_states()
        restore_generators(as_it_was(self._found["beginning"]))
        return as_it_was(self._found["beginning"])

    def _contents(self, targets: set[str]) -> Contents:
        reason = self._variables.nameless(self._optimizers)
        if reason is None:
            try:
                return self._variables.contents(without=targets, is_first=self._rank == 0)
            except ValueError as error:
                reason = str(error)
        raise AccelError(
            f"--checkpoint {self._folder.path}",
            because=reason,
            do="Make models and optimizers variables of the notebook, of what torch can save: then they can be found again.",
        )

    def _check_whether_it_can_go_on(self, entries: list[Any]) -> None:
        if all(any(each in entry["drives"] for entry in entries) for each in self._iterators):
            return
        raise AccelError(
            f"--checkpoint {self._folder.path}",
            because="batches are taken with next() from an iterator of a DataLoader, and nothing tells where that is",
            do="Take them in a loop, for batch in loader; or train without --checkpoint.",
        )

    def _put_back(self, *, is_final: bool) -> None:
        assert self._found is not None
        self._has_put_back = True
        first = self._found["ranks"][0]["variables"]
        mine = self._mine["variables"] if self._is_as_many(self._found) else first
        contents = first | {kind: mine[kind] for kind in OWN}
        if not self._is_as_many(self._found):
            contents["generators"] = {}  # they are as before the loop, for it begins anew
        try:
            self._variables.put_back(contents, is_final=is_final)
        except ValueError as error:
            raise self._cannot_go_on(str(error)) from error

    def _scale_on(self) -> None:
        """float16 goes on with the scale that it had found: begun anew, the first steps would overflow and be skipped."""
        if (saved := self._mine.get("loss_scale")) is None:
            return
        from accel.techniques.numerics.loss_scaling import scaled_backward_passes

        scaling = self._undo.enter_context(scaled_backward_passes())  # the plan's, which may enter it later
        scaling.scale, scaling.good_passes = saved

    def _cannot_go_on(self, because: str) -> AccelError:
        return AccelError(
            f"Going on from the checkpoints in {self._folder.path}",
            because=because,
            do="Run the cells that make these objects again, as they were; or name another folder to train from the beginning.",
        )


def _loss_scale() -> tuple[float, int] | None:
    """Of float16 on this rank, where there is one: the scale, and its good passes so far."""
    from accel.techniques.numerics.loss_scaling import live_loss_scaling

    scaling = live_loss_scaling()
    return None if scaling is None else (scaling.scale, scaling.good_passes)

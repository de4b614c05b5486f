"""A plan in a rank: applied to what the cell trains before its first use, read back, and undone before the state goes home."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.distributed.ranks.rank_messages import RunRequest
    from accel.plans.plan import Plan
    from accel.profiling.compilation import Compilation
    from accel.workload.replica import Replica


class PlanInRank:
    """Entered round everything else that is done to the objects of a run, `DataParallel` included.

    >>> with PlanInRank(request, namespace) as plan, DataParallel(..., prepare=plan.take):
    ...     exec(cell, namespace)
    >>> plan.proofs()             # still inside its own context

    So a model's call is, from the outside in: DDP, then the plan (autocast round the compiled code), then the model. DDP round
    the compiled code and not inside it: DDP comes after the first complete passes and may be taken off again, and code that was
    compiled before need not know. A graph that is compiled while DDP calls it is cut at DDP's buckets by torch itself.
    """

    def __init__(self, request: RunRequest, namespace: dict[str, Any]) -> None:
        self._request, self._namespace = request, namespace
        self._taken: weakref.WeakSet[Any] = weakref.WeakSet()
        self._presented: list[Replica] = []
        self._undo = ExitStack()
        self.plan: Plan | None = None  # while entered, where there is one
        self._found: Any = None
        self._watch: Any = None

    def __enter__(self) -> PlanInRank:
        if not self._request.options.plan:
            return self
        from accel.plans.plan import Plan
        from accel.profiling.compile_watch import CompileWatch
        from accel.workers.found_objects import FoundObjects
        from accel.workload.replica import Replica
        from accel.workload.training_code import training_codes

        request = self._request
        self.plan = plan = Plan.parse(request.options.plan)
        codes = training_codes(
            self._namespace, list(self._namespace), request.filename, request.source, request.reads_back
        )
        process = Replica(codes=codes, trains_on=self._device)
        with ExitStack() as stack:
            stack.enter_context(plan.apply(process))
            self._presented = [process]
            self._found = stack.enter_context(FoundObjects(plan, self._presented).taken_back())
            self._watch = stack.enter_context(CompileWatch())
            self._undo = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._undo.close()

    def take(self, found: Replica) -> None:
        """Apply the plan to what is about to be used for the first time; a model's optimizers get it with the model.

        Together, because a change of a model's layout is one of its optimizer's state too; and not at the optimizer's first
        step, because by then its `step` has been called.
        """
        if self.plan is None:
            return
        from accel.workload.replica import Replica
        from accel.workload.roles import names_by_id

        names = names_by_id(self._namespace)
        held: dict[str, dict[str, Any]] = {}
        for kind, thing in [*_things(found), *self._belonging_to(found)]:
            if thing not in self._taken:
                self._taken.add(thing)
                of_kind, label = held.setdefault(kind, {}), names.get(id(thing), type(thing).__name__)
                while label in of_kind:
                    label += "'"
                of_kind[label] = thing
        if held:
            whole = Replica(**held, is_process_wide=False, trains_on=self._device)
            self._found.take(whole)

    def gather_pieces(self) -> None:
        """Make whole what the cell kept of a model that is spread over the ranks; every rank calls this at the cell's end."""
        if self.plan is None or "fully_shard" not in self.plan.names:
            return
        from accel.distributed.data_parallel.gathered_pieces import gather_pieces
        from accel.techniques.sharding.sharded_model import original_parameters

        gather_pieces(
            self._namespace, [*self._request.names, *self._request.writes], original_parameters()
        )  # fmt: skip

    def proofs(self) -> list[tuple[str, bool, str]]:
        """(entry, whether it took effect, what was read back) for each entry, over all that it was applied to."""
        if self.plan is None:
            return []
        from accel.workload.replica import merged

        proofs = self.plan.proofs(merged(self._presented))
        return [(name, proof.took_effect, proof.evidence) for name, proof in proofs]

    @property
    def compilation(self) -> Compilation | None:
        """What torch.compile did."""
        found: Compilation | None = self._watch.found() if self._watch is not None else None
        return found

    def _belonging_to(self, found: Replica) -> Iterator[tuple[str, Any]]:
        """Optimizers of a found model that are there already, wherever the cell keeps them, and the losses that have a name."""
        import torch

        from accel.techniques.sharding.sharded_optimizer import optimizers_of

        own = [p for model in found.models.values() for p in model.parameters()]
        if not own:
            return
        for optimizer in optimizers_of(own):
            yield "optimizers", optimizer
        for thing in _named(self._namespace):
            if isinstance(thing, torch.nn.modules.loss._Loss):
                yield "criteria", thing

    @property
    def _device(self) -> str:
        """Where this rank trains: it sees no GPU but its own."""
        import torch

        of_models = (
            p.device for each in _named(self._namespace) if isinstance(each, torch.nn.Module) for p in each.parameters()
        )  # fmt: skip
        return str(next(of_models, "cuda:0" if self._request.backend == "nccl" else "cpu"))


def _things(replica: Replica) -> Iterator[tuple[str, Any]]:
    for kind, named in replica.by_kind().items():
        for thing in named.values():
            yield kind, thing


def _named(namespace: dict[str, Any]) -> Iterator[Any]:
    """What has a name in the notebook, and the attributes of its own objects."""
    import torch

    for name, value in list(namespace.items()):
        if name.startswith("_"):
            continue
        yield value
        if type(value).__module__ == "__main__" and not isinstance(value, torch.nn.Module):
            yield from list(getattr(value, "__dict__", {}).values())

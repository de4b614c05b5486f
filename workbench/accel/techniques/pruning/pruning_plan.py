"""What a pruned model keeps: the entries of each tensor that stay, and the widths that its modules have then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Criterion = Literal["l1", "l2", "fpgm", "taylor"]
Types = Literal["conv", "linear", "all"]
Engine = Literal["torch_pruning", "nni"]
Kept = tuple["torch.Tensor | None", ...]  # for each dimension the indices that stay; None: all of them


@dataclass(frozen=True)
class PruningPlan:
    """What stays of each tensor, by its name in the state_dict, and the widths that modules have then.

    >>> plan_pruning(cnn, (images,), sparsity=0.5).filters
    {'conv1': (32, 16), 'conv2': (64, 32)}
    """

    kept: Mapping[str, Kept]
    widths: Mapping[str, Mapping[str, Any]]
    filters: Mapping[str, tuple[int, int]]

    def then(self, later: PruningPlan) -> PruningPlan:
        """Both in one: `later` was made for the model as this one leaves it."""
        kept = dict(self.kept)
        for name, indices in later.kept.items():
            before = kept.get(name, (None,) * len(indices))
            pairs = zip(before, indices, strict=True)
            kept[name] = tuple(a if b is None else b if a is None else a[b] for a, b in pairs)
        modules = {**self.widths, **later.widths}
        widths = {name: {**self.widths.get(name, {}), **later.widths.get(name, {})} for name in modules}
        filters = {
            name: (self.filters.get(name, later.filters.get(name, (0, 0)))[0], last[1])
            for name, last in {**self.filters, **later.filters}.items()
        }
        return PruningPlan(kept, widths, filters)

"""From operations in the order they ran to the nodes that are shown: what only prepares weights, or does nothing, is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accel.opgraph.op_arithmetic import aten_name, names_of, sizes
from accel.opgraph.op_names import onnx_name
from accel.opgraph.op_node import OpNode

IDLE = names_of(
    "dropout feature_dropout alpha_dropout contiguous to _to_copy clone alias detach lift_fresh_copy"
)


class Value(NamedTuple):
    """Where a tensor comes from: nodes, parameters, and whether it is the same in every call of the model."""

    nodes: tuple[int, ...] = ()
    parameters: frozenset[str] = frozenset()
    is_constant: bool = False


@dataclass
class GraphBuilder:
    """Takes operations one after the other.

    `parameter_sizes` has the elements of each parameter by its name; a tied one goes by its first.
    """

    parameter_sizes: Mapping[str, int]
    nodes: list[OpNode] = field(default_factory=list)

    def add(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, *,
        sources: Iterable[Value], module: tuple[str, str], flops: int | None, bytes_moved: int | None,
    ) -> Value:  # fmt: skip
        """One operation on tensors that came from `sources`; returns where its results come from."""
        from torch import Tensor
        from torch.utils._pytree import tree_leaves

        sources = list(sources)
        read = [leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor)]
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        name = aten_name(func)
        parameters = frozenset().union(*(source.parameters for source in sources))
        if all(source.is_constant for source in sources) and not _is_random(func):
            return Value((), parameters, True)
        if not results:
            return Value()
        if name.rstrip("_") in IDLE and sources and _is_same(read[0], results[0]):
            return sources[0]
        return self._node(name, read, results[0], sources, parameters, module, flops, bytes_moved)

    def _node(
        self, name: str, read: list[Any], result: Any, sources: list[Value], parameters: frozenset[str],
        module: tuple[str, str], flops: int | None, bytes_moved: int | None,
    ) -> Value:  # fmt: skip
        own = frozenset().union(*(source.parameters for source in sources if source.is_constant))
        node = OpNode(
            index=len(self.nodes),
            op=onnx_name(name, sizes(result), read[0].dim() if read else 0),
            aten=name,
            module=module[0],
            module_class=module[1],
            shape=sizes(result),
            dtype=str(result.dtype).removeprefix("torch."),
            parameters=sum(self.parameter_sizes[parameter] for parameter in own),
            parameter_names=tuple(sorted(own)),
            flops=flops,
            bytes=bytes_moved,
            inputs=tuple(sorted({index for source in sources for index in source.nodes})),
        )
        self.nodes.append(node)
        return Value((node.index,))


def _is_same(before: Any, after: Any) -> bool:
    return bool(before.shape == after.shape and before.dtype == after.dtype and before.device == after.device)


def _is_random(func: Any) -> bool:
    from torch import Tag

    return Tag.nondeterministic_seeded in getattr(func, "tags", ())

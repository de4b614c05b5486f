"""What an operation computes and moves: FLOPs by torch's own formulas or by its shapes, bytes by its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def names_of(words: str) -> frozenset[str]:
    """A set written as one text."""
    return frozenset(words.split())


# A view changes shape and strides, and neither computes nor moves anything.
VIEWS = names_of(
    "view unflatten transpose permute t numpy_T mT movedim unsqueeze squeeze select slice narrow split split_with_sizes "
    "chunk unbind tensor_split expand expand_as broadcast_to view_as _unsafe_view detach alias as_strided unfold"
)
MAYBE_VIEWS = names_of("reshape flatten _reshape_alias contiguous")  # a copy if the input is not contiguous
MOVES = names_of(
    "cat concat stack to _to_copy clone copy pad constant_pad_nd repeat tile embedding index index_select gather "
    "masked_fill where roll flip pixel_shuffle pixel_unshuffle one_hot tril triu fill zero index_put scatter "
    "new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like"
)
ONE_AN_OUTPUT = names_of(
    "add sub rsub subtract mul multiply div divide true_divide neg abs relu clamp clamp_min clamp_max hardtanh relu6 "
    "maximum minimum threshold sqrt square eq ne gt ge lt le leaky_relu floor ceil sign logical_not logical_and"
)
ONE_AN_INPUT = names_of("sum mean max min amax amin argmax argmin prod")
TWO_AN_OUTPUT = names_of(  # in evaluation: one multiplication and one addition with numbers known beforehand
    "batch_norm native_batch_norm _native_batch_norm_legit_no_training cudnn_batch_norm"
)
RECURRENT = names_of("lstm gru rnn_tanh rnn_relu")


def flops_of(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any,
    fake: Callable[[], AbstractContextManager[Any]] = nullcontext, *, may_run: bool = True,
) -> int | None:  # fmt: skip
    """Floating-point operations, a multiply-add counted as two; None where no formula is known.

    Formulas of `torch.utils.flop_counter` come first, those of what the operation is made of included, for which it is
    run once more inside `fake()`; then the shapes, for what computes one result an element.
    """
    name = aten_name(func)
    by_shape = _by_shape(name, args, out)
    if by_shape is not None:
        return by_shape
    if name.endswith(("scaled_dot_product_attention", "_attention", "_attention_for_cpu")):
        return _attention(args)
    if name in RECURRENT and isinstance(args[2], (list, tuple)):
        return _recurrent(args[0], args[2])
    if may_run:
        return _by_running(func, args, kwargs, fake)
    return _registered(func, args, kwargs, out)


def bytes_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> int | None:
    """Each input read once and each output written once: the least the operation can move. A view moves nothing."""
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    name = aten_name(func)
    read = {id(leaf): leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor)}
    if name in VIEWS or (name in MAYBE_VIEWS and all(tensor.is_contiguous() for tensor in read.values())):
        return 0
    written = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
    if name == "embedding":  # of the table only the rows looked up
        indices, row = args[1], args[0].shape[-1] * args[0].element_size()
        return _known(_bytes(indices) + indices.numel() * row + sum(map(_bytes, written)))
    return _known(sum(map(_bytes, read.values())) + sum(map(_bytes, written)))


def aten_name(func: Any) -> str:
    """`aten.conv2d.default` is "conv2d"; other libraries keep their own: "torchvision.nms"."""
    namespace, _, name = str(func._schema.name if hasattr(func, "_schema") else func).rpartition("::")
    return name if namespace in ("aten", "") else f"{namespace}.{name}"


def sizes(tensor: Any) -> tuple[int | str, ...]:
    """The shape; a size that only the data tells is a name such as "u0"."""
    return tuple(size if isinstance(size, int) else str(size) for size in tensor.shape)


def _by_shape(name: str, args: tuple[Any, ...], out: Any) -> int | None:
    name = name if name in MOVES else name.rstrip("_")
    if name in VIEWS | MAYBE_VIEWS | MOVES:
        return 0
    result, first = _first_tensor(out), _first_tensor(args)
    if result is None or first is None:
        return None
    if name in ONE_AN_OUTPUT:
        return _known(result.numel())
    if name in TWO_AN_OUTPUT:
        return _known(2 * result.numel())
    if name in ONE_AN_INPUT or ("adaptive" in name and "pool" in name):
        return _known(first.numel())
    if "_pool" in name and len(args) > 1:
        return _known(result.numel() * _window(args[1], result.dim() - 2))
    return None


def _window(kernel_size: Any, dimensions: int) -> int:
    given = [kernel_size] if isinstance(kernel_size, int) else list(kernel_size)
    return prod(given * dimensions if len(given) == 1 else given)


def _attention(args: tuple[Any, ...]) -> int | None:
    """Two matrix products: queries by keys, and the weights by values."""
    query, key, value = args[:3]
    rows = query.numel() // max(1, query.shape[-1])
    return _known(2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def _recurrent(sequence: torch.Tensor, parameters: Any) -> int | None:
    """Every weight matrix once for each element of the sequence."""
    rows = sequence.numel() // max(1, sequence.shape[-1])
    return _known(2 * rows * sum(each.numel() for each in parameters if each.dim() == 2))


def _by_running(
    func: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    fake: Callable[[], AbstractContextManager[Any]],
) -> int | None:
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    try:
        with counter, fake():
            func(*args, **kwargs)
    except (RuntimeError, NotImplementedError):  # its shapes depend on data, which fake tensors do not have
        return None
    found = counter.get_flop_counts().get("Global")
    return _known(counter.get_total_flops()) if found else None


def _registered(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> int | None:
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(getattr(func, "overloadpacket", func))
    return None if formula is None else _known(formula(*args, **kwargs, out_val=out))


def _first_tensor(values: Any) -> torch.Tensor | None:
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    return next((leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)), None)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _known(count: Any) -> int | None:
    """A count in which a size is only known from the data is not known."""
    return count if isinstance(count, int) else None

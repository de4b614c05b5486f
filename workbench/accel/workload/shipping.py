"""Copy a workload into a worker by value: one pickle of everything the cell reads, large memory shared.

The pickle goes over the worker's socket; tensors and arrays lie in one anonymous memory file that every worker maps
copy-on-write: one copy of a data set in memory, however many workers read it. Everything goes into *one* dump: optimizer,
scheduler and model keep sharing their parameters. Functions and classes of earlier cells travel by value (cloudpickle) and
get one common namespace, in which the cell then runs: a function that reads a global sees what the cell writes.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import linecache
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cloudpickle

from accel.errors import NotShippable, first_line
from accel.workload.generators import device_here, generator_states, restore_generators
from accel.workload.library_changes import LibraryChange, library_changes, make_changes
from accel.workload.memory_file import MemoryFile
from accel.workload.notebook_module import NotebookModule
from accel.workload.parts_apart import PartsApart
from accel.workload.torch_settings import read_settings, write_settings
from accel.workload.whole_objects import bare, count_hooks_from, reduced, set_dict

if TYPE_CHECKING:
    from accel.workload.workload import Workload

See = Callable[[Any], None]
_SMALL_BYTES = (
    16 << 20
)  # storages below this are copied out of the file: parameters live in ordinary memory, as at home


@dataclass(frozen=True)
class Parcel:
    """A workload packed for workers: `blob` is the pickle, `memory` the shared file it refers to."""

    blob: bytes
    memory: MemoryFile
    source: str
    filename: str
    boundary: str

    def close(self) -> None:
        """Let go of the memory; a trial is remembered longer than its data."""
        self.memory.close()
        object.__setattr__(self, "blob", b"")


def pack(workload: Workload) -> Parcel:
    """Pack what the workload's cell reads, as it is now, with the states of the random number generators.

    >>> parcel = pack(workload)

    Raises NotShippable, naming the variable, when something cannot be pickled.
    """
    return pack_cell(
        workload.source, workload.filename, workload.namespace, workload.reads,
        boundary=workload.boundary, models=workload.objects().models, extra=_rereads(workload),
    )  # fmt: skip


def _rereads(workload: Workload) -> dict[str, Any]:
    """What the cell's last run left and this one may read; without what cannot travel, which few runs will ask for."""
    here = {name: workload.namespace[name] for name in workload.rereads if name in workload.namespace}
    return {name: value for name, value in here.items() if _why_not(value) is None}


def _why_not(value: object) -> Exception | None:
    """The error that packing this value raises; None if it can travel."""
    spare = MemoryFile()
    try:
        dump(value, spare)
    except Exception as error:  # whatever pickling its objects raises
        return error
    finally:
        spare.close()
    return None


def pack_cell(
    source: str,
    filename: str,
    namespace: dict[str, Any],
    reads: Iterable[str],
    *,
    boundary: str = "",
    models: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Parcel:
    """The same for a cell that was not profiled: pack these names of the namespace; gradients of `models` travel with
    them, and so do `extra` names, which are not the namespace's.

    >>> parcel = pack_cell(source, "<cell>", namespace, names_read(source, namespace))
    """  # fmt: skip
    reads = tuple(reads)
    if "get_ipython" in reads:
        raise NotShippable(
            "A worker runs the cell in plain Python",
            because="the cell has a line for IPython (% or !), which a worker does not know",
            do="Move that line to a cell of its own and run this one again.",
        )
    names = {name: namespace[name] for name in reads if name in namespace} | dict(extra or {})
    changes = library_changes(namespace)
    memory, parts = MemoryFile(), PartsApart(namespace)

    def packed() -> bytes:
        contents = _contents(names, models or {}, changes)
        for _, gradient in contents["gradients"]:
            memory.leave_in_place(gradient)
        first = [(_anchor(namespace), len(parts.named)), *parts.named.items()]
        return pickle.dumps((_sources(), dump(contents, memory, first=first, see=parts.see)))

    try:
        blob = packed()
        parts.check()
        if parts.named:  # pack again with these first; if that fails, the cell may not need them
            with contextlib.suppress(Exception):
                blob = packed()
    except BaseException as error:
        memory.close()
        is_of_system = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.EFBIG, errno.ENOSPC)
        if isinstance(error, Exception) and not isinstance(error, NotShippable) and not is_of_system:
            in_libraries = {f"{owner.__name__}.{name}": value for owner, name, value in changes}
            raise _explained(error, names | in_libraries) from error
        raise
    memory.seal()
    return Parcel(blob, memory, source, filename, boundary)


def _anchor(namespace: dict[str, Any]) -> types.FunctionType:
    """A function whose globals are the notebook's; after unpickling they are the one namespace that all functions share."""
    anchor = types.FunctionType((lambda: None).__code__, namespace, "anchor")
    anchor.__module__ = "__main__"
    return anchor


def _contents(
    names: dict[str, Any], models: Mapping[str, Any], changes: list[LibraryChange]
) -> dict[str, Any]:
    from torch.utils.hooks import RemovableHandle

    return {
        "names": names,
        "in libraries": changes,
        "gradients": _gradients(names, models),
        "generators": generator_states(),
        "settings": read_settings(),
        "next_hook": RemovableHandle.next_id,
    }


def _sources() -> dict[str, str]:
    """The cells' own lines, for tracebacks; apart, so that an error while the rest is unpickled has its lines too."""
    return {
        name: "".join(entry[2])
        for name, entry in linecache.cache.items()
        if len(entry) == 4 and entry[1] is None and isinstance(entry[2], list)
    }


def _gradients(names: dict[str, Any], models: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Pickling drops `.grad`; a cell that accumulates over its own end would notice."""
    shipped = [model for name, model in models.items() if name.split(".")[0] in names]
    parameters = (p for model in shipped for p in model.parameters())
    return [(p, p.grad) for p in parameters if p.grad is not None]


def dump(
    contents: object, memory: MemoryFile, *, first: Sequence[object] = (), see: See = lambda obj: None
) -> bytes:
    """Pickle what is `first`, then `contents`, then what weak references in them lead to; tensors and arrays lie in `memory`."""
    buffers: list[tuple[int, int]] = []
    stream = io.BytesIO()
    held: list[Any] = []
    pickler = make_pickler(stream, memory, {}, buffers, held.append, see)
    for each in (*first, contents, held):
        pickler.dump(each)
    return pickle.dumps((buffers, stream.getvalue()))


def make_pickler(
    stream: io.BytesIO, memory: MemoryFile, known: Mapping[int, Any], buffers: list[tuple[int, int]],
    hold: Callable[[Any], None], see: See = lambda obj: None,
) -> Any:  # fmt: skip
    """A pickler whose tensors and arrays go to `memory`. Objects that are `known` by id are not sent: their token is.

    `hold` gets what weak references lead to, and `see` gets bytes and all objects whose class is not one of Python's basic ones.
    """
    import torch
    from torch.utils.data import DataLoader

    texts: dict[str, bytes] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> Any:
            if type(obj) is str:
                return texts.setdefault(obj, obj.encode()) if _is_interned(obj) else None
            if type(obj) is bytes:
                return see(obj)
            if isinstance(obj, dict) and (module := _module_of(obj)) is not None:
                return ("globals", module)
            if known and (token := known.get(id(obj))) is not None:
                return ("known", token)
            if isinstance(obj, torch.storage.TypedStorage):
                storage = obj._untyped_storage
                place = memory.add_storage(storage)
                kind = "storage in place" if memory.is_left_in_place(storage) else "storage"
                return (kind, place, storage.nbytes(), obj.dtype, str(storage.device))
            return None

        def reducer_override(self, obj: Any) -> Any:
            cls = type(obj)  # that of a weakref.proxy is its own
            see(obj)
            if issubclass(cls, DataLoader) and obj._iterator is not None:
                state = {**obj.__dict__, "_iterator": None}  # processes of the iterator stay at home
                return (bare, (cls,), state, None, None, set_dict)
            if issubclass(cls, torch.nn.parallel.DistributedDataParallel):  # belongs to ranks that have met
                return (_itself, (obj.module,))
            if cls is types.CodeType:  # cloudpickle takes the name of its file away, from 3.1.3 on
                return (_of_file, (obj.co_filename, *self.dispatch_table[types.CodeType](obj)))
            made = reduced(obj, hold)
            return super().reducer_override(obj) if made is NotImplemented else made

        def _dynamic_function_reduce(self, func: types.FunctionType) -> Any:
            """A function that an imported module made (a wrapper, a closure) goes on using that module's variables, and one that
            was made together with others shares with them what they bind.
            """
            made, (code, variables, *rest, _), (attributes, state), *others = (
                super()._dynamic_function_reduce(func)
            )
            if _module_of(func.__globals__) is not None:
                state["__globals__"], variables = {}, func.__globals__
            arguments = (code, variables, *rest, func.__closure__)  # its own cells: others may bind them too
            return made, arguments, (attributes, state), *others

    def keep_outside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < 4096:
            return True  # in band
        buffers.append((memory.add_bytes(raw), raw.nbytes))
        return False

    return Pickler(stream, protocol=5, buffer_callback=keep_outside)


def _module_of(variables: dict[str, Any]) -> str | None:
    """The name of the module whose variables these are, where another process can import it."""
    name = variables.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
    is_its_own = module is not None and module.__dict__ is variables and variables.get("__spec__") is not None
    return name if is_its_own else None


def _is_interned(text: str) -> bool:
    """Python has one object for a word in code, and code may ask `is`: what is equal to a word there is to be that again."""
    return len(text) <= 64 and text.isidentifier() and sys.intern(text) is text


def _itself(obj: Any) -> Any:
    return obj


def _of_file(name: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]) -> types.CodeType:
    """Code knows the file or the cell that its lines are in: tracebacks and profiles show them."""
    return make(*arguments).replace(co_filename=name)


def unpack(blob: bytes, memory: MemoryFile) -> dict[str, Any]:
    """In the worker: rebuild the namespace in which the cell runs, with generators and torch settings as at home.

    Only ever called on what the worker's own kernel sent over the inherited socket.
    """
    sources, blob = pickle.loads(blob)
    for filename, source in sources.items():
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    # Undo the previous cell's changes: unpickling looks classes and functions up by name, and must find the libraries' own.
    make_changes([])
    arriving = _Unpickler(blob, memory)
    anchor, named = arriving.load()
    namespace: dict[str, Any] = anchor.__globals__
    namespace["__name__"] = "__main__"
    sys.modules["__main__"] = NotebookModule(namespace)
    try:
        namespace.update(arriving.load() for _ in range(named))
        contents, held = arriving.load(), arriving.load()
    except AttributeError as error:
        if "<module '__main__'" not in str(error):
            raise
        raise NotShippable(  # a pickle in an object may be compressed, so that the notebook could not see what it names
            "A worker process needs a copy of what the cell reads",
            because=f"an object holds a pickle that names what the worker does not have: {first_line(error)}",
            do="Build the object that holds the pickle in the cell that trains.",
        ) from error
    namespace.update(contents["names"], __held_weakly__=held)
    make_changes(contents["in libraries"])
    for parameter, gradient in contents["gradients"]:
        parameter.grad = gradient
    write_settings(contents["settings"])
    count_hooks_from(contents["next_hook"])
    restore_generators(contents["generators"])
    return namespace


def load(blob: bytes, memory: MemoryFile) -> Any:
    """The contents that `dump` packed without `first`."""
    return _Unpickler(blob, memory).load()


class _Unpickler(pickle.Unpickler):
    """Each `load` returns the next object that `dump` pickled.

    A class made for each call would hold on to the memory, and its file, until the garbage collector comes round.
    """

    def __init__(self, blob: bytes, memory: MemoryFile) -> None:
        spans, stream = pickle.loads(blob)
        super().__init__(io.BytesIO(stream), buffers=[memory.view(offset, size) for offset, size in spans])
        self._found = Found(memory, {})

    def persistent_load(self, key: Any) -> Any:
        return self._found(key)


class Found:
    """What the tokens of a pickle stand for: storages in the memory, and objects that are known here."""

    def __init__(self, memory: MemoryFile, known: Mapping[Any, Any]) -> None:
        self._memory, self._known = memory, known
        self._storages: dict[int, Any] = {}

    def __call__(self, key: Any) -> Any:
        import torch

        if key[0] == "known":
            try:
                return self._known[key[1]]
            except KeyError:
                name = ".".join(map(str, key[1]))
                raise pickle.UnpicklingError(f"{name}, which it leads to, is not found here") from None
        if isinstance(key, bytes):
            return sys.intern(key.decode())
        if key[0] == "globals":
            return vars(importlib.import_module(key[1]))
        kind, offset, size_bytes, dtype, device = key
        storage = self._storages.get(offset)
        if storage is None:
            copy = kind == "storage" and size_bytes < _SMALL_BYTES
            storage = self._memory.storage(offset, size_bytes, copy=copy)
            if device != "cpu":
                here = device_here(device, torch.cuda.device_count())
                storage = storage.to(device=torch.device(here))
            self._storages[offset] = storage
        typed: Any = torch.storage.TypedStorage
        return typed(wrap_storage=storage, dtype=dtype, _internal=True)


def _explained(error: Exception, names: dict[str, Any]) -> NotShippable:
    """Find the variable that cannot be pickled, and say what can be done about it."""
    for name, value in sorted(
        names.items(), key=lambda item: callable(item[1])
    ):  # a function drags its globals along
        if (own := _why_not({"value": value})) is not None:
            return NotShippable(
                f"A worker process needs a copy of {name!r} ({type(value).__name__})",
                because=f"it cannot be pickled: {first_line(own)}",
                do=f"Keep the DataLoader, and write iter(…) in the cell that trains: {name!r} is an epoch half read."
                if _is_epoch(value)
                else f"Build {name!r} in the cell that trains; or keep locks, open files, generators and live iterators out of "
                "it (open them in __getitem__), or give its class __getstate__.",
            )
    return NotShippable(
        "A worker process needs a copy of what the cell reads",
        because=f"it cannot be pickled: {first_line(error)}",
        do="Keep locks, open files, generators and live iterators out of the objects that the cell uses.",
    )


def _is_epoch(value: Any) -> bool:
    """Whether it is what `iter(loader)` gives."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    return isinstance(value, _BaseDataLoaderIter)

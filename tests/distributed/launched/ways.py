"""Cells that distribute their training themselves; what they need is in `tests.distributed.cells.EARLIER`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
SCRIPTS = {
    name: (FOLDER / f"{name}.py").read_text() for name in ("chapter_8", "chapter_9", "chapter_10", "spawned")
}

_LOOP = """
for epoch in range(2):
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()
"""
_JOIN = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
_SAMPLER = (
    "from torch.utils.data.distributed import DistributedSampler\n"
    "data = TensorDataset(x, y)\nloader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))\n"
)
_DDP = "net = nn.parallel.DistributedDataParallel(model)\n"
_LEAVE = "dist.destroy_process_group()\n"
_MEAN = """        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()"""
_SPLIT = """
import os, datasets
from datasets.distributed import split_dataset_by_node
whole = datasets.Dataset.from_dict({"x": x.tolist(), "y": y.tolist()})
part = split_dataset_by_node(whole%s, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
part = part.with_format("torch")
loader = [(batch["x"].double(), batch["y"]) for batch in DataLoader(part, batch_size=5)]
"""
_ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
net, opt, data = accelerator.prepare(model, optimizer, loader)
for epoch in range(2):
    for inputs, labels in data:
        opt.zero_grad()
        accelerator.backward(criterion(net(inputs), labels))
        opt.step()
accelerator.end_training()
"""

# A cell, and what has to be installed for it.
CELLS = {
    "a sampler and DDP": (_JOIN + _SAMPLER + _DDP + _LOOP + _LEAVE, ""),
    "DDP on a loader that is not split": (_JOIN + _DDP + _LOOP, ""),
    "gradients summed by hand": (_JOIN + _SAMPLER + "net = model\n" + _LOOP.replace("        optimizer.step()", _MEAN), ""),
    "joined only if not yet joined, gradients summed by hand": (
        "import torch.distributed as dist\nif not dist.is_initialized():\n    dist.init_process_group('gloo')\n"
        + _SAMPLER + "net = model\n" + _LOOP.replace("        optimizer.step()", _MEAN) + _LEAVE, "",
    ),
    "parameters averaged once an epoch": (
        _JOIN + _SAMPLER + "net = model\n" + _LOOP
        + "    for p in model.parameters():\n        dist.all_reduce(p.data)\n        p.data /= dist.get_world_size()\n", "",
    ),
    "a part by split_dataset_by_node": (_JOIN + _SPLIT % "" + _DDP + _LOOP, "datasets"),
    "a stream's part by split_dataset_by_node": (
        _JOIN + _SPLIT % ".to_iterable_dataset(num_shards=2)" + _DDP + _LOOP, "datasets",
    ),
    "Accelerate's prepare": (_ACCELERATE, "accelerate"),
}  # fmt: skip

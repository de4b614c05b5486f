"""Training cells that each have one fault that a rule of diagnosis knows; for `python -m benchmarks.predictions`."""

from __future__ import annotations

from benchmarks.faulty_case import LOOP, START, Case, mlp, ready
from benchmarks.faulty_data_cells import DATA_CASES

CNN = (
    START
    + """
from accel.labs.models import CNN
model = CNN()
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
batches = [(torch.randn({size}, 1, 28, 28), torch.randint(0, 10, ({size},))) for _ in range(20)]
"""
)
IMAGES = (
    START
    + """
model = nn.Sequential({layers}, nn.Flatten(), nn.LazyLinear(10))
batches = [(torch.randn(32, 3, {side}, {side}), torch.randint(0, 10, (32,))) for _ in range(20)]
model(batches[0][0])  # the last layer learns its size
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
"""
)
CONVOLUTIONS = "nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)"
NORMALISED = ", ".join(
    f"nn.Conv2d({before}, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()" for before in (3, 32)
)
POOLED = "nn.Conv2d(3, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AvgPool2d(2)"
ENCODER = (
    START
    + """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(500, {width})
        layer = nn.TransformerEncoderLayer({width}, 4, 2 * {width}, batch_first=True, dropout=0.0)
        self.layers, self.head = nn.TransformerEncoder(layer, {layers}), nn.Linear({width}, 10)
    def forward(self, x):
        return self.head(self.layers(self.words(x)).mean(1))
model = Encoder()
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
batches = [(torch.randint(0, 500, ({size}, {tokens})), torch.randint(0, 10, ({size},))) for _ in range(20)]
"""
)
DEEP = (
    START
    + """
layers = [layer for _ in range({count}) for layer in (nn.Linear({width}, {width}), nn.LayerNorm({width}), nn.GELU())]
model = nn.Sequential(*layers, nn.Linear({width}, 10))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3{more})
X, Y = torch.randn(640, {width}), torch.randint(0, 10, (640,))
batches = list(zip(X.split({size}), Y.split({size})))
"""
)
RESIDUAL = (
    START
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
    def forward(self, h):
        return h + torch.relu(self.linear(h))
model = nn.Sequential(*[Block() for _ in range(32)], nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [(torch.randn(8, 16), torch.randint(0, 10, (8,))) for _ in range(60)]
"""
)
SMALL_BATCHES = """
X, Y = torch.randn(1280, 256), torch.randint(0, 10, (1280,))
batches = list(zip(X.split({size}), Y.split({size})))
"""
SMALL_LOADER = """
data = torch.utils.data.TensorDataset(torch.randn(2560, 256), torch.randint(0, 10, (2560,)))
batches = torch.utils.data.DataLoader(data, batch_size=4)
"""

HALF_CAST = """
for x, y in batches:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
HALF = "model.half()\nbatches = [(x.half(), y) for x, y in batches]\n"
VALIDATING = """
for x, y in batches:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
    {context}:
        for v, w in validation:
            correct = (model(v).argmax(1) == w).float().mean()
"""
IN_EVAL_MODE = """
model.train()
for x, y in batches:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
model.eval()
{context}:
    for v, w in validation:
        correct = (model(v).argmax(1) == w).float().mean()
"""
TWICE_THE_CORES = "import os\ntorch.set_num_threads(2 * len(os.sched_getaffinity(0)))\n"
ANOMALY = "torch.autograd.set_detect_anomaly(True)\n" + LOOP

ACTIVATION = (
    START
    + """
class Activation(nn.Module):
    def forward(self, h):
        return {formula}
model = nn.Sequential(nn.Linear(256, 1024), Activation(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [(torch.randn(512, 256), torch.randint(0, 10, (512,))) for _ in range(20)]
"""
)
GELU = "h * 0.5 * (1 + torch.tanh(0.79788 * (h + 0.044715 * h * h * h)))"
POLYNOMIAL = "((h * 0.1 + 0.3) * h - 0.2) * h * 0.5 + h * 0.7 - 0.1"
SWISH = "(h * 1.2 + 0.1) * torch.sigmoid(h * 1.5 - 0.2) * 0.9 + 0.05 * h"
WIDE = (
    START
    + """
model = nn.Sequential(nn.Linear(16, 1024), nn.GELU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [(torch.randn(2048, 16), torch.randint(0, 10, (2048,))) for _ in range(30)]
"""
)
BLOCKS = (
    START
    + """
from torch.utils.checkpoint import checkpoint
class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList({block} for _ in range({count}))
        self.head = nn.Linear(256, 10)
    def forward(self, x):
        for block in self.blocks:
            x = {call}
        return self.head(x)
model = Blocks()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
"""
)
CHECKPOINTED = "checkpoint(block, x, use_reentrant=False)"
LAYER = "nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0)"

RESET = "torch._dynamo.reset()\n"
COMPILED = """
model = torch.compile(model, backend="{backend}", dynamic={dynamic})
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn({count}, 256), torch.randint(0, 10, ({count},)))
batches = torch.utils.data.DataLoader(data, batch_size=32, drop_last={drop_last})
"""
SIZES = """
x, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
@torch.compile(backend="eager", dynamic={dynamic})
def forward(x):
    return model(x)
"""
OF_FIVE_SIZES = """
torch._dynamo.reset()
for number in range(40):
    size = 32 + 8 * (number % 5)
    optimizer.zero_grad()
    criterion(forward(x[:size]), y[:size]).backward()
    optimizer.step()
"""
COUNTING = (
    START
    + """
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.number = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)), {number}
    def forward(self, x):
        return self.inner(x) * (1.0 - 0.01 * self.number)
model = Counting()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
@torch.compile(backend="eager")
def forward(x):
    return model(x)
batches = [(torch.randn(64, 256), torch.randint(0, 10, (64,))) for _ in range(40)]
"""
)
COUNTED = """
torch._dynamo.reset()
for number, (x, y) in enumerate(batches):
    {count}
    optimizer.zero_grad()
    criterion(forward(x), y).backward()
    optimizer.step()
"""

RANK = """
import contextlib
import torch.distributed as dist
if not dist.is_initialized():  # a group of this process alone: what a collective costs without a network
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""
DDP = RANK + "model = nn.parallel.DistributedDataParallel(model)\n"
ACCUMULATING = """
for number, (x, y) in enumerate(batches, 1):
    {context}:
        criterion(model(x), y).backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
NO_SYNC = "with contextlib.nullcontext() if number % 4 == 0 else model.no_sync()"
REDUCING = """
for number, (x, y) in enumerate(batches, 1):
    criterion(model(x), y).backward()
    {reduces}:
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
    if number % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
OFTEN, LESS_OFTEN = REDUCING.format(reduces="if True"), REDUCING.format(reduces="if number % 2 == 0")


def cnn(optimizer: str = "SGD", size: int = 64) -> str:
    """The course's CNN."""
    return CNN.format(optimizer=optimizer, size=size)


def images(layers: str, side: int = 32) -> str:
    """A network of these layers for images."""
    return IMAGES.format(layers=layers, side=side)


def encoder(width: int, layers: int, size: int, tokens: int, optimizer: str = "SGD") -> str:
    """A small transformer."""
    return ENCODER.format(width=width, layers=layers, size=size, tokens=tokens, optimizer=optimizer)


def deep(count: int, width: int, size: int = 16, optimizer: str = "SGD", more: str = "") -> str:
    """Many small layers."""
    return DEEP.format(count=count, width=width, size=size, optimizer=optimizer, more=more)


def blocks(block: str, count: int, call: str = CHECKPOINTED) -> str:
    """A network of blocks that are checkpointed, or called."""
    return BLOCKS.format(block=block, count=count, call=call) + ready(128)


def compiled(backend: str, count: int, *, dynamic: bool | None = None, drop_last: bool = False) -> str:
    """A compiled network, and a loader whose last batch is smaller, or left out."""
    more = COMPILED.format(backend=backend, count=count, dynamic=dynamic, drop_last=drop_last)
    return mlp(64) + more


LINEAR_GELU = "nn.Sequential(nn.Linear(256, 256), nn.GELU())"
CASES: tuple[Case, ...] = (
    # This case runs first: the rule counts busy cores, and each case keeps a core busy for a minute after it ran.
    Case("one thread on two cores", "thread_subscription", cnn()),
    *DATA_CASES,
    Case("24 layers of 32 units", "launch_bound", deep(24, 32), is_fitted=True),
    Case("32 residual blocks of 16 units", "launch_bound", RESIDUAL),
    Case("a transformer of 32 units", "launch_bound", encoder(32, 4, 4, 8)),
    Case("course CNN in float32", "low_precision_idle", cnn()),
    Case("MLP of 1024 units in float32", "low_precision_idle", mlp(1024) + ready(256)),
    Case("64 channels in float32", "low_precision_idle", images(CONVOLUTIONS, side=16)),
    Case("transformer in float32", "low_precision_idle", encoder(256, 2, 16, 64)),
    Case("float16 autocast of an MLP", "low_precision_emulated", mlp(256) + ready(64), HALF_CAST),
    Case("float16 autocast of the CNN", "low_precision_emulated", cnn(size=16), HALF_CAST),
    Case("float16 weights", "low_precision_emulated", mlp(256) + ready(64) + HALF, LOOP, LOOP,
         mlp(256) + ready(64)),
    Case("course CNN in NCHW", "layout_nchw", cnn()),
    Case("batch normalisation in NCHW", "layout_nchw", images(NORMALISED)),
    Case("pooling in NCHW", "layout_nchw", images(POOLED)),
    Case("course CNN with plain Adam", "optimizer_not_fused", cnn("Adam"), is_fitted=True),
    Case("MLP of 1024 units, plain Adam", "optimizer_not_fused", mlp(1024, "Adam") + ready(16), is_fitted=True),
    Case("plain Adagrad, 40 layers", "optimizer_not_fused",
         deep(40, 96, optimizer="Adagrad")),
    Case("plain momentum, 24 layers", "optimizer_not_fused",
         deep(24, 128, more=", momentum=0.9")),
    Case("batches of 8", "batch_too_small", mlp(64, "Adam") + SMALL_BATCHES.format(size=8), LOOP, LOOP,
         mlp(64, "Adam") + SMALL_BATCHES.format(size=32)),
    Case("batches of 4 from a loader", "batch_too_small", mlp(128, "Adam") + SMALL_LOADER),
    Case("batches of 8 for many layers", "batch_too_small", deep(16, 64, size=8), LOOP, LOOP,
         deep(16, 64, size=32)),
    Case("twice as many threads as cores", "thread_subscription", cnn() + TWICE_THE_CORES),
    Case("default malloc", "allocator_page_faults", cnn(), is_fitted=True),
    Case("activations of 8 MB", "allocator_page_faults", WIDE),
    Case("anomaly mode left on", "profiling_leftovers", mlp(256) + ready(64), ANOMALY, is_fitted=True),
    Case("anomaly mode, 24 layers", "profiling_leftovers", deep(24, 64), ANOMALY),
    Case("anomaly mode, transformer", "profiling_leftovers", encoder(128, 2, 16, 32), ANOMALY),
    Case("gradients in validation", "gradients_in_validation", mlp(256) + ready(64) + "validation = batches[:2]\n",
         VALIDATING.format(context="if True"), VALIDATING.format(context="with torch.no_grad()"), is_fitted=True),
    Case("gradients in eval mode", "gradients_in_validation",
         deep(12, 128, size=32) + "validation = batches * 3\n",
         IN_EVAL_MODE.format(context="if True"), IN_EVAL_MODE.format(context="with torch.no_grad()")),
    Case("GELU written out", "memory_bound_elementwise", ACTIVATION.format(formula=GELU), is_fitted=True),
    Case("a polynomial written out", "memory_bound_elementwise", ACTIVATION.format(formula=POLYNOMIAL),
         is_fitted=True),
    Case("a gate written out", "memory_bound_elementwise", ACTIVATION.format(formula=SWISH)),
    Case("checkpointed linear layers", "recomputed_forward", blocks(LINEAR_GELU, 8), LOOP, LOOP,
         blocks(LINEAR_GELU, 8, "block(x)")),
    Case("checkpointed transformer layers", "recomputed_forward", blocks(LAYER, 2), LOOP, LOOP,
         blocks(LAYER, 2, "block(x)")),
    Case("the last batch compiles again", "last_batch_recompiles", compiled("eager", 1925), RESET + LOOP,
         RESET + LOOP, compiled("eager", 1925, dynamic=True)),
    Case("the last of few batches", "last_batch_recompiles", compiled("aot_eager", 3205), RESET + LOOP,
         RESET + LOOP, compiled("aot_eager", 3205, drop_last=True)),
    Case("compiled for five sizes", "recompilation_churn", mlp(64) + SIZES.format(dynamic=False), OF_FIVE_SIZES,
         OF_FIVE_SIZES, mlp(64) + SIZES.format(dynamic=True)),
    Case("compiled for each number", "recompilation_churn", COUNTING.format(number=0),
         COUNTED.format(count="model.number = number % 6"), COUNTED.format(count="model.number.fill_(number % 6)"),
         COUNTING.format(number="torch.zeros(())")),
    Case("DDP in each micro-batch", "ddp_without_no_sync", mlp(64) + DDP + ready(16, 80),
         ACCUMULATING.format(context="if True"), ACCUMULATING.format(context=NO_SYNC)),
    Case("DDP with many layers", "ddp_without_no_sync", deep(12, 64, size=8) + DDP,
         ACCUMULATING.format(context="if True"), ACCUMULATING.format(context=NO_SYNC)),
    Case("reduced by hand too often", "communication_bound", mlp(64) + RANK + ready(16, 60), OFTEN, LESS_OFTEN),
    Case("many layers reduced by hand", "communication_bound", deep(12, 64, size=8) + RANK, OFTEN, LESS_OFTEN),
)  # fmt: skip

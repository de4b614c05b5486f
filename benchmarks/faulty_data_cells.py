"""Cells whose fault is in their data or in their loader: waiting, converting, starting workers, workers without a core."""

from __future__ import annotations

from textwrap import indent

from benchmarks.faulty_case import LOOP, START, Case, mlp

AUGMENTED = """
class Augmented(torch.utils.data.Dataset):
    def __len__(self):
        return {count}
    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.randn(256, generator=generator)
        for shift in range({turns}):
            image = image.roll(shift).add(torch.randn(256, generator=generator), alpha=0.1).clamp(-3, 3)
        return image, i % 10
batches = torch.utils.data.DataLoader(Augmented(), batch_size=16, num_workers={workers})
"""
REMOTE = """
import time
class Remote(torch.utils.data.Dataset):
    def __len__(self):
        return 960
    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.randn(256), i % 10
batches = torch.utils.data.DataLoader(Remote(), batch_size=16)
"""
IN_MEMORY = """
X, Y = torch.randn({count}, 256), torch.randint(0, 10, ({count},))
data = torch.utils.data.TensorDataset(X, Y)
batches = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers={workers})
"""
BY_BATCH = """
for i in torch.randperm(len(X)).split(64):
    x, y = X[i], Y[i]
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
PAIRS = """
class Pairs(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(24_000, 256), torch.randint(0, 10, (24_000,))
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i], self.y[i]
batches = torch.utils.data.DataLoader(Pairs(), batch_size=32, num_workers=4)
"""

ROWS = """
rows, y = torch.randn(64, 256), torch.randint(0, 10, (64,))
def made(turn):
    return torch.stack([row.roll(turn).clamp(-3, 3).mul(1.1) for row in rows])
"""
MADE_IN_THE_LOOP = """
for turn in range(60):
    x = made(turn)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
MADE_BEFORE = """
for x in ready:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
GENERATED = """
def generated():
    for turn in range(60):
        yield made(turn), y
"""

DOUBLES = """
data = [(torch.randn(512, 256, dtype=torch.float64), torch.randint(0, 10, (512,))) for _ in range(20)]
batches = data
"""
CONVERTING = """
for x, y in batches:
    x = x.to(torch.float32)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
CONVERTED = "batches = [(x.float(), y) for x, y in data]\n"
LINEAR = (
    START
    + """
model = nn.Linear(256, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = [(torch.randn(512, 256){stored}, torch.randint(0, 10, (512,))) for _ in range(40)]
batches = data
"""
)
BYTES, HALVES = LINEAR.format(stored=".mul(40).clamp(0, 255).byte()"), LINEAR.format(stored=".half()")

SHORT = """
data = torch.utils.data.TensorDataset(torch.randn({count}, 256), torch.randint(0, 10, ({count},)))
"""
EPOCHS = """
batches = torch.utils.data.DataLoader(data, batch_size=32, num_workers={workers}{more})
for epoch in range({epochs}):
    for x, y in batches:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
"""

BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "threads"}
WITH_ALL_CPUS = "import accel\nwith accel.loader_affinity():\n" + indent(LOOP.strip("\n"), "    ") + "\n"
MORE_THAN_CORES = "2 * len(__import__('os').sched_getaffinity(0))"


def augmented(count: int, *, turns: int = 100, workers: object = 0) -> str:
    """A loader whose samples are computed."""
    return AUGMENTED.format(count=count, turns=turns, workers=workers)


def in_memory(count: int = 2560, workers: int = 0) -> str:
    """A loader of tensors."""
    return IN_MEMORY.format(count=count, workers=workers)


def epochs(count: int, workers: int, more: str = "") -> str:
    """Several epochs in one cell."""
    return EPOCHS.format(epochs=count, workers=workers, more=more)


KEPT = ", persistent_workers=True"
DATA_CASES: tuple[Case, ...] = (
    Case("augmentation in Python", "input_bound", mlp(2048) + augmented(3200)),
    Case("samples from a remote disk", "input_bound", mlp(512) + REMOTE),
    Case("tensors taken one by one", "input_bound", mlp(64) + in_memory(), LOOP, BY_BATCH),
    Case("two workers for tensors", "input_bound", mlp(64) + in_memory(48_000, workers=2), is_fitted=True),
    Case("four workers for pairs", "input_bound", mlp(64) + PAIRS),
    Case("batches made in the loop", "input_bound", mlp(128) + ROWS, MADE_IN_THE_LOOP, MADE_BEFORE,
         mlp(128) + ROWS + "ready = [made(turn) for turn in range(60)]\n"),
    Case("batches from a generator", "input_bound", mlp(256) + ROWS + GENERATED,
         LOOP.replace("in batches", "in generated()"), LOOP,
         mlp(256) + ROWS + GENERATED + "batches = list(generated())\n", is_fitted=True),
    Case("doubles converted each step", "copy_bound", mlp(32) + DOUBLES, CONVERTING, LOOP,
         mlp(32) + DOUBLES + CONVERTED, is_fitted=True),
    Case("bytes converted each step", "copy_bound", BYTES, CONVERTING, LOOP, BYTES + CONVERTED),
    Case("halves converted each step", "copy_bound", HALVES, CONVERTING, LOOP, HALVES + CONVERTED),
    Case("a worker started in each epoch", "loader_restarts", mlp(256) + SHORT.format(count=1600),
         epochs(5, 1), epochs(5, 1, KEPT), is_fitted=True),
    Case("two workers, short epochs", "loader_restarts", mlp(512) + SHORT.format(count=640),
         epochs(8, 2), epochs(8, 2, KEPT), is_fitted=True),
    Case("two workers on one CPU", "narrowed_workers", mlp(64) + augmented(800, workers=2), LOOP, WITH_ALL_CPUS,
         is_fitted=True, environment=BOUND),
    Case("one worker on training's CPU", "narrowed_workers", mlp(1024) + augmented(800, turns=40, workers=1),
         LOOP, WITH_ALL_CPUS, environment=BOUND),
    Case("more workers than cores", "thread_subscription",
         mlp(1024) + augmented(1600, turns=8, workers=MORE_THAN_CORES)),
    Case("many workers that compute little", "thread_subscription",
         mlp(1536) + augmented(1600, turns=3, workers=MORE_THAN_CORES)),
)  # fmt: skip

"""Twelve training cells that wait for their loader, for `python -m benchmarks.clock --loaders` and `… verdicts --where loaders`.

What a batch costs: samples that lie in memory (sending a batch from a worker takes longer than making it), pictures that are
decoded and resized (making it needs a core), samples that a disk or a network gives (making it needs none). Nine cells start
without workers and try one, two or four; three start with workers and try none. Epochs take about a second; those of two cells
take four, which is longer than a turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.clock_cells import ADAM, CNN, HEAD, Case

MEMORY = """
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(32_000, 32), torch.randint(0, 10, (32_000,)))
loader = DataLoader(data, batch_size=64, shuffle=True, num_workers={workers})
"""
DECODE = (
    CNN
    + ADAM
    + """
import io
import numpy as np
from PIL import Image
class Pictures(Dataset):
    def __init__(self, count):
        self.count, self.files = count, []
        for _ in range(16):
            pixels = nn.functional.interpolate(torch.rand(1, 3, 20, 20), size=320, mode="bilinear")[0]
            file = io.BytesIO()
            Image.fromarray((255 * pixels).byte().permute(1, 2, 0).numpy()).save(file, "JPEG", quality=90)
            self.files.append(file.getvalue())
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        picture = Image.open(io.BytesIO(self.files[i % 16])).convert("RGB").resize((56, 56))
        picture = picture.rotate(i % 20).resize((28, 28)).convert("L")
        return torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)[None], i % 10
loader = DataLoader(Pictures({count}), batch_size=16, shuffle=True, num_workers={workers})
"""
)
SLEEP = (
    CNN
    + ADAM
    + """
class Remote(Dataset):
    def __init__(self, count):
        self.images = torch.randn(count, 1, 28, 28)
    def __len__(self):
        return len(self.images)
    def __getitem__(self, i):
        time.sleep(0.002)
        return self.images[i], i % 10
loader = DataLoader(Remote({count}), batch_size=16, shuffle=True, num_workers={workers})
"""
)
SETUPS = {"memory": MEMORY, "decode": DECODE, "sleep": SLEEP}


@dataclass(frozen=True)
class LoaderCase(Case):
    """A cell whose loader starts with some number of workers; its plan sets another."""

    gets: int = 0

    @property
    def plan(self) -> str:
        return f"loader_workers(n={self.gets})"


def loader_case(what: str, *, had: int, gets: int, times: int = 1) -> LoaderCase:
    """The cell that has so many workers, and the plan that gives it others; with `times` as many samples.

    >>> loader_case("sleep", had=0, gets=4).name
    'sleep_0_to_4'
    """
    setup = HEAD + SETUPS[what].replace("{workers}", str(had)).replace("{count}", str(384 * times))
    return LoaderCase(f"{what}_{had}_to_{gets}", setup, gets=gets)


LONG = {("decode", 2): 4, ("sleep", 4): 4}


LOADER_CASES = (
    *(
        loader_case(what, had=0, gets=workers, times=LONG.get((what, workers), 1))
        for what in SETUPS
        for workers in (1, 2, 4)
    ),
    loader_case("memory", had=4, gets=0),
    loader_case("decode", had=1, gets=0),
    loader_case("sleep", had=2, gets=0),
)

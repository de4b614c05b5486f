"""Where batches come from: data sets, streams, collate functions, generators, tensors that are indexed."""

from tests.cells.cell import FUNCTIONAL, Cell
from tests.cells.loops import TRAIN

BODY = """
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
"""
NO_LOADER = "models=model optimizers=optimizer criteria=criterion"

CELLS = (
    Cell(
        "custom data set",
        TRAIN,
        """
class Pairs(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        return self.x[index] * 2, self.y[index]

loader = DataLoader(Pairs(x, y), batch_size=8, shuffle=True)
""",
    ),
    Cell(
        "iterable data set",
        TRAIN,
        """
class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(x, y)

loader = DataLoader(Stream(), batch_size=8)
""",
        refused={"ddp": "cannot be cut before they are read"},
    ),
    Cell(
        "collate function with a mask",
        """
for batch in loader:
    optimizer.zero_grad()
    out = model(batch["values"]) * batch["mask"]
    loss = F.cross_entropy(out, batch["labels"])
    loss.backward()
    optimizer.step()
""",
        """
def collate(rows):
    values = torch.stack([row[0] for row in rows])
    mask = torch.ones(len(rows), 1, dtype=values.dtype)
    return {"values": values, "mask": mask, "labels": torch.stack([row[1] for row in rows])}

loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, collate_fn=collate)
""",
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer loaders=loader",
    ),
    Cell(
        "last batch is smaller",
        TRAIN,
        "loader = DataLoader(TensorDataset(x[:58], y[:58]), batch_size=8, shuffle=True)\n",
    ),
    Cell(
        "tensors that are indexed",
        f"""
order = torch.randperm(len(x))
for start in range(0, len(x), 8):
    chosen = order[start:start + 8]
    inputs, labels = x[chosen], y[chosen]
{BODY}""",
        roles=NO_LOADER,
        refused={"ddp": "come from no DataLoader"},
    ),
    Cell(
        "batches from a generator",
        f"for inputs, labels in batches(8):\n{BODY}",
        """
def batches(size):
    for start in range(0, len(x), size):
        yield x[start:start + size], y[start:start + size]
""",
        roles=NO_LOADER,
        refused={"ddp": "come from no DataLoader"},
    ),
    Cell(
        "one batch again and again",
        f"""
inputs, labels = next(iter(loader))
for _ in range(8):
{BODY}""",
    ),
    Cell(
        "two loaders in turns",
        """
for (inputs, labels), (noise,) in zip(loader, noises):
    optimizer.zero_grad()
    loss = criterion(model(inputs + 0.1 * noise), labels)
    loss.backward()
    optimizer.step()
""",
        "noises = DataLoader(TensorDataset(torch.randn(64, 6, dtype=torch.float64)), batch_size=8)\n",
        roles="models=model optimizers=optimizer criteria=criterion loaders=loader,noises",
    ),
    Cell(
        "enumerate and a bound",
        f"""
for index, (inputs, labels) in enumerate(loader):
    if index == 6:
        break
{BODY}""",
        steps=6,
    ),
    Cell(
        "worker processes",
        TRAIN,
        "loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True, num_workers=1, persistent_workers=True)\n",
    ),
)

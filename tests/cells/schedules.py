"""What goes round the steps: epochs, validation, schedulers, early stopping, files, output, arguments."""

from tests.cells.cell import Cell

STEP = """
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
VALIDATED = """
def validate():
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, labels in val_loader:
            right += (model(inputs).argmax(1) == labels).sum().item()
    model.train()
    return right / 32
"""
VAL_LOADER = "val_loader = DataLoader(TensorDataset(x[:32], y[:32]), batch_size=16)\n"
WITH_VAL = "models=model optimizers=optimizer criteria=criterion loaders=loader,val_loader"
SCHEDULED = "models=model optimizers=optimizer criteria=criterion loaders=loader schedulers=scheduler"

CELLS = (
    Cell(
        "epochs with validation",
        f"""
history = []
for epoch in range(2):
    model.train(){STEP}
    model.eval()
    with torch.no_grad():
        history.append(sum(criterion(model(a), b).item() for a, b in val_loader))
""",
        VAL_LOADER,
        steps=16,
        roles=WITH_VAL,
    ),
    Cell(
        "scheduler made in setup, a step an epoch",
        f"for epoch in range(2):{STEP}    scheduler.step()\n",
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)\n",
        steps=16,
        roles=SCHEDULED,
    ),
    Cell(
        "scheduler made in the cell, a step a batch",
        f"""
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=16)
for epoch in range(2):{STEP}        scheduler.step()
""",
        steps=16,
        roles=SCHEDULED,
    ),
    Cell(
        "warm-up by hand",
        """
for done, (inputs, labels) in enumerate(loader):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * min(1.0, (done + 1) / 4)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
""",
    ),
    Cell(
        "early stopping with the best state",
        f"""
best, patience = 0.0, 0
for epoch in range(3):{STEP}
    accuracy = validate()
    if accuracy > best:
        best, patience = accuracy, 0
        best_state = copy.deepcopy(model.state_dict())
    else:
        patience += 1
        if patience == 3:
            break
if best > 0:
    model.load_state_dict(best_state)
""",
        VAL_LOADER + VALIDATED,
        steps=24,
        roles=WITH_VAL,
    ),
    Cell(
        "saved and loaded in the cell",
        f"""
import tempfile, os
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "best.pt")
    for epoch in range(2):{STEP.replace(chr(10) + "    ", chr(10) + "        ")}
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, path)
    model.load_state_dict(torch.load(path)["model"])
""",
        steps=16,
    ),
    Cell(
        "try and except in the loop",
        """
skipped = 0
for inputs, labels in loader:
    try:
        if skipped == 0:
            raise ValueError("a broken sample")
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
    except ValueError:
        skipped += 1
""",
        steps=7,
    ),
    Cell(
        "tqdm and print",
        f"""
from tqdm import tqdm
bar = tqdm(range(2), desc="epochs", disable=True)
for epoch in bar:{STEP}
    bar.set_postfix(loss=loss.item())
    print(f"epoch {{epoch}}: {{loss.item():.4f}}")
""",
        steps=16,
    ),
    Cell(
        "tqdm round the loader",
        """
from tqdm.auto import tqdm
for inputs, labels in (bar := tqdm(loader, leave=False, disable=True)):
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    bar.set_description(f"{loss.item():.3f}")
""",
    ),
    Cell(
        "logging and a history",
        f"""
import logging
log = logging.getLogger("training")
history = {{"loss": [], "lr": []}}
for epoch in range(2):{STEP}        history["loss"].append(loss.item())
        log.info("loss %.3f", loss.item())
    history["lr"].append(optimizer.param_groups[0]["lr"])
""",
        steps=16,
    ),
    Cell(
        "configuration in a dataclass",
        """
from dataclasses import dataclass

@dataclass
class Config:
    lr: float = 0.05
    epochs: int = 2

def main(config):
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    for epoch in range(config.epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()

main(Config())
""",
        steps=16,
        roles="models=model optimizers=Adam_1 criteria=criterion loaders=loader",
        refused={"export": "no line of the cell builds it under that name"},
    ),
    Cell(
        "argparse",
        f"""
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args([])
for epoch in range(args.epochs):{STEP}""",
        steps=16,
    ),
    Cell(
        "nested functions",
        """
def train(epochs):
    seen = 0
    def one(inputs, labels):
        nonlocal seen
        def closure_loss():
            return criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss = closure_loss()
        loss.backward()
        optimizer.step()
        seen += len(inputs)
        return loss.item()
    for epoch in range(epochs):
        losses = [one(*batch) for batch in loader]
    return seen, losses

seen, losses = train(2)
""",
        steps=16,
    ),
    Cell(
        "await at the top level",
        """
import asyncio
async def train():
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(model(inputs), labels).backward()
        optimizer.step()
        await asyncio.sleep(0)

await train()
""",
        refused={"script": "'await' outside function"},
    ),
    Cell(
        "time magic",
        """%%time
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
""",
    ),
)

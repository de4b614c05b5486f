"""How the weights are updated: accumulation, clipping, averages, closures, two-step methods, optimizers of the notebook."""

from tests.cells.cell import Cell

CELLS = (
    Cell(
        "accumulation over 2 batches",
        """
for index, (inputs, labels) in enumerate(loader):
    loss = criterion(model(inputs), labels) / 2
    loss.backward()
    if (index + 1) % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        "loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)\n",
    ),
    Cell(
        "accumulation over micro-batches of a batch",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    for half in range(2):
        part = slice(4 * half, 4 * half + 4)
        (criterion(model(inputs[part]), labels[part]) / 2).backward()
    optimizer.step()
""",
        ddp="--batch per-rank",
        differs="a rank's batch is a batch of the user's",
    ),
    Cell(
        "a checkpoint is loaded first",
        """
optimizer.load_state_dict(saved)
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
""",
        "saved = copy.deepcopy(optimizer.state_dict())\n",
    ),
    Cell(
        "a checkpoint is loaded by a function of an earlier cell",
        "resume()\nfit()",
        """
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
saved = copy.deepcopy(optimizer.state_dict())
def resume():
    optimizer.load_state_dict(saved)
def fit():
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
""",
    ),
    Cell(
        "gradient clipping",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
""",
    ),
    Cell(
        "parameter groups and weight decay",
        """
optimizer = torch.optim.AdamW([
    {"params": model[0].parameters(), "lr": 1e-3},
    {"params": model[2].parameters(), "weight_decay": 0.0},
], lr=1e-2)
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
""",
    ),
    Cell(
        "an optimizer each for body and head",
        """
for inputs, labels in loader:
    first.zero_grad(); second.zero_grad()
    criterion(model(inputs), labels).backward()
    first.step()
    second.step()
""",
        """
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.Adam(model[2].parameters(), lr=0.01)
""",
        roles="models=model optimizers=first,second criteria=criterion loaders=loader",
    ),
    Cell(
        "an optimizer each, stepped in a loop",
        """
for inputs, labels in loader:
    for each in optimizers:
        each.zero_grad()
    criterion(model(inputs), labels).backward()
    for each in optimizers:
        each.step()
""",
        """
optimizers = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.SGD(model[2].parameters(), lr=0.1)]
""",
        roles="models=model optimizers=SGD_1,each criteria=criterion loaders=loader",
        refused={"export": "it has no name in the notebook"},
    ),
    Cell(
        "LBFGS with a closure",
        """
for inputs, labels in loader:
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        return loss
    optimizer.step(closure)
""",
        "optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)\n",
        phases="data forward loss backward optimizer closure zero_grad",
        plan="intraop_threads(n=2)",
        near=1e-9,
    ),
    Cell(
        "sharpness-aware minimisation",
        """
for inputs, labels in loader:
    criterion(model(inputs), labels).backward()
    with torch.no_grad():
        moved = [0.05 * p.grad / (p.grad.norm() + 1e-12) for p in model.parameters()]
        for p, e in zip(model.parameters(), moved):
            p.add_(e)
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), moved):
            p.sub_(e)
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
    Cell(
        "optimizer class of the notebook",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
""",
        """
class SignDescent(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01):
        super().__init__(params, {"lr": lr})
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

optimizer = SignDescent(model.parameters())
""",
        plan="intraop_threads(n=2)",
    ),
    Cell(
        "optimizer class of the notebook, derived from SGD and used before",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
""",
        """
class Lookahead(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                slow = self.state[p].setdefault("slow", p.detach().clone())
                with torch.no_grad():
                    slow.add_(p - slow, alpha=0.5)
                    p.copy_(slow)
        return loss

optimizer = Lookahead(model.parameters(), lr=0.1)
criterion(model(x), y).backward()
optimizer.step()
""",
        plan="intraop_threads(n=2)",
    ),
    Cell(
        "update by hand",
        """
for inputs, labels in loader:
    loss = criterion(model(inputs), labels)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
""",
        phases="zero_grad data forward loss backward",
        roles="models=model criteria=criterion loaders=loader",
        plan="intraop_threads(n=2)",
    ),
    Cell(
        "moving average of weights",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters()):
            slow.lerp_(fast, 0.1)
""",
        "average = copy.deepcopy(model)\n",
        weights="model,average",
    ),
    Cell(
        "stochastic weight averaging",
        """
from torch.optim.swa_utils import AveragedModel, SWALR
averaged = AveragedModel(model)
scheduler = SWALR(optimizer, swa_lr=0.05)
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
    averaged.update_parameters(model)
    scheduler.step()
""",
        weights="model,averaged",
        roles="models=model optimizers=optimizer criteria=criterion loaders=loader schedulers=scheduler",
    ),
    Cell(
        "gradient scaler and autocast",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = criterion(model(inputs), labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
        """
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x.float(), y), batch_size=8, shuffle=True)
scaler = torch.amp.GradScaler("cpu")
""",
        phases="zero_grad data forward loss backward optimizer scaler",
        roles="models=model optimizers=optimizer criteria=criterion loaders=loader scalers=scaler",
        near=1e-2,
    ),
)

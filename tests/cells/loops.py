"""Plain ways to write a training loop: statements, functions, classes, other loops than `for`."""

from tests.cells.cell import Cell

TRAIN = """
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
"""
STEP = """
def step(inputs, labels):
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
"""
TRAINER = """
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.criterion = nn.CrossEntropyLoss()
        self.losses = []

    def step(self, inputs, labels):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, epochs=1):
        for epoch in range(epochs):
            for inputs, labels in self.loader:
                self.losses.append(self.step(inputs, labels))
"""

CELLS = (
    Cell("plain loop", TRAIN),
    Cell("function of an earlier cell", "losses = [step(inputs, labels) for inputs, labels in loader]", STEP),
    Cell("function in the cell", STEP + "for inputs, labels in loader:\n    step(inputs, labels)\n"),
    Cell(
        "trainer built in an earlier cell",
        "trainer.fit(epochs=2)",
        TRAINER + "trainer = Trainer(model, loader)\n",
        steps=16,
        roles="models=model optimizers=trainer.optimizer criteria=trainer.criterion loaders=loader",
    ),
    Cell(
        "trainer built in the cell",
        "trainer = Trainer(model, loader)\ntrainer.fit()\n",
        TRAINER,
        roles="models=model optimizers=trainer.optimizer criteria=trainer.criterion loaders=loader",
    ),
    Cell(
        "criterion made in each step",
        TRAIN.replace("criterion(", "nn.CrossEntropyLoss()("),
        roles="models=model optimizers=optimizer criteria=CrossEntropyLoss_1 loaders=loader",
    ),
    Cell(
        "while loop with next(it)",
        """
it = iter(loader)
done = 0
while done < 8:
    inputs, labels = next(it)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    done += 1
""",
    ),
    Cell(
        "while loop with try around next",
        """
it = iter(loader)
while True:
    try:
        inputs, labels = next(it)
    except StopIteration:
        break
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
""",
    ),
    Cell(
        "clients in a dict, trained in turn by batches of a wrapped loader",
        """
for _ in range(2):
    for name in clients:
        train(clients[name], parts[name])
        clients[name].eval()
model.load_state_dict({key: sum(each.state_dict()[key] for each in clients.values()) / 2 for key in model.state_dict()})
""",
        """
class Wrapped:
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        batches = iter(self.loader)
        for inputs, labels in batches:
            yield inputs * 2, labels
def train(client, batches):
    client.train()
    for inputs, labels in batches:
        optimizer.zero_grad()
        criterion(client(inputs), labels).backward()
        optimizer.step()
model.eval()
clients = {name: copy.deepcopy(model) for name in "ab"}
optimizer = torch.optim.SGD([each for client in clients.values() for each in client.parameters()], lr=0.1)
parts = {name: Wrapped(DataLoader(TensorDataset(x[k::2], y[k::2]), batch_size=8)) for k, name in enumerate(clients)}
""",
        steps=16,
        roles="models=Sequential_1,Sequential_2 optimizers=optimizer criteria=criterion loaders=DataLoader_1,DataLoader_2",
    ),
    Cell(
        "a display handle that is updated in each step",
        """
from IPython.display import display as show
shown, bars = display("loss", display_id=True), show("bar", display_id=True)
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    optimizer.step()
    for handle in (shown, bars):
        if handle is not None:  # IPython's display returns None outside a notebook
            handle.update(loss.item())
    display(loss.item())
""",
    ),
)

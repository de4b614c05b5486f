"""State that a plain pickle leaves out or refuses: hooks, parametrizations, optimizers' attributes, weak references."""

from tests.cells.cell import FUNCTIONAL, Cell

TRAIN = """
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
"""
SHARPNESS = """
class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, {"rho": rho, **kwargs})
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups
        self.climbs = 0
    @torch.no_grad()
    def first_step(self):
        self.climbs += 1
        for p in (p for group in self.param_groups for p in group["params"]):
            self.state[p]["old"] = p.detach().clone()
            p.add_(p.grad / (p.grad.norm() + 1e-12), alpha=0.05)
        self.zero_grad()
    @torch.no_grad()
    def second_step(self):
        for p in (p for group in self.param_groups for p in group["params"]):
            p.copy_(self.state[p]["old"])
        self.base.step()
        self.zero_grad()

optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
"""

CELLS = (
    Cell(
        "gradients scaled by hooks on parameters",
        TRAIN,
        """
scale = {"by": 0.5}
model[0].weight.register_hook(lambda gradient: gradient * scale["by"])
handle = model[2].bias.register_hook(lambda gradient: torch.zeros_like(gradient))
""",
    ),
    Cell(
        "hooks on parameters that the cell registers and removes",
        """
handle.remove()
model[2].weight.register_hook(lambda gradient: gradient * 2)
"""
        + TRAIN,
        "handle = model[0].weight.register_hook(lambda gradient: gradient * 0)\n",
    ),
    Cell(
        "an optimizer in the backward pass",
        """
for inputs, labels in loader:
    criterion(model(inputs), labels).backward()
""",
        """
inside = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in model.parameters()}
def step_now(p):
    inside[p].step()
    inside[p].zero_grad()
for p in model.parameters():
    p.register_post_accumulate_grad_hook(step_now)
""",
        phases="data forward loss backward optimizer zero_grad",
        roles="models=model optimizers=SGD_1,SGD_2,SGD_3,SGD_4 criteria=criterion loaders=loader",
        refused={"export": "it has no name in the notebook"},
    ),
    Cell(
        "settings and functions of a library that earlier cells replaced",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels) + colorsys.ONE_THIRD * colorsys.rgb_to_hls(model[0].weight)
    loss.backward()
    optimizer.step()
""",
        """
import colorsys
colorsys.ONE_THIRD = 0.25
def added(weight):
    return weight.square().mean()
setattr(colorsys, "rgb_to_hls", added)
""",
    ),
    Cell(
        "an object that passes on what it lacks",
        TRAIN.replace("in loader", "in batches"),
        """
class Wrapped:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
class Batches(Wrapped):
    def __iter__(self):
        return iter(self.inner)
class Rows(Dataset, Wrapped):
    def __len__(self):
        return len(self.inner)
    def __getitem__(self, index):
        return self.inner[index]
    def __getstate__(self):
        return {**vars(self), "is_copy": True}
batches = Batches(DataLoader(Rows(loader.dataset), batch_size=8))
""",
        roles="models=model optimizers=optimizer criteria=criterion loaders=batches.inner",
    ),
    Cell(
        "a class whose words are those of parts of torch",
        TRAIN.replace("model(inputs)", "own(inputs)"),
        """
class Own(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.classes, self.ops = net, torch.arange(3), torch.ops.aten
    def forward(self, x):
        return self.net(x) + 0 * self.classes
own = Own(model)
""",
        roles="models=own optimizers=optimizer criteria=criterion loaders=loader",
    ),
    Cell(
        "parametrizations of an earlier cell",
        TRAIN,
        """
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
model = nn.Sequential(weight_norm(nn.Linear(6, 8)), nn.Tanh(), orthogonal(nn.Linear(8, 8)), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    ),
    Cell(
        "parametrizations that the cell makes",
        """
from torch.nn.utils import parametrize
class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).T
net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Linear(6, 3))).double()
parametrize.register_parametrization(net[0], "weight", Symmetric())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for inputs, labels in loader:
    opt.zero_grad()
    criterion(net(inputs), labels).backward()
    opt.step()
""",
        weights="net",
        awaits={"ddp": "a part of the model is called before the whole"},
        roles="models=net optimizers=opt criteria=criterion loaders=loader",
    ),
    Cell(
        "sharpness-aware minimisation by an optimizer with another inside",
        """
for inputs, labels in loader:
    criterion(model(inputs), labels).backward()
    optimizer.first_step()
    criterion(model(inputs), labels).backward()
    optimizer.second_step()
""",
        SHARPNESS,
        roles="models=model optimizers=optimizer.base criteria=criterion loaders=loader",
    ),
    Cell(
        "an optimizer around another, without a constructor of torch's",
        """
for inputs, labels in loader:
    criterion(model(inputs), labels).backward()
    optimizer.step()
    for p in model.parameters():
        p.grad = None
""",
        """
class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner, k=3):
        self.inner, self.k, self.count, self.slow = inner, k, 0, {}
        self.param_groups, self.state = inner.param_groups, inner.state
    @torch.no_grad()
    def step(self, closure=None):
        self.inner.step()
        self.count += 1
        for p in (p for group in self.param_groups for p in group["params"]):
            slow = self.slow.setdefault(p, p.detach().clone())
            if self.count % self.k == 0:
                slow.lerp_(p, 0.5)
                p.copy_(slow)
optimizer = Lookahead(torch.optim.Adam(model.parameters(), lr=0.01))
""",
        phases="data forward loss backward optimizer",
        roles="models=model optimizers=optimizer.inner criteria=criterion loaders=loader",
    ),
    Cell(
        "a group of parameters that the cell adds",
        """
head = nn.Linear(6, 3).double()
optimizer.add_param_group({"params": head.parameters(), "lr": 0.01})
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(head(inputs) + model(inputs), labels).backward()
    optimizer.step()
""",
        weights="model,head",
        roles="models=model,head optimizers=optimizer criteria=criterion loaders=loader",
    ),
    Cell(
        "lazy layers",
        TRAIN,
        """
model = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    ),
    Cell(
        "words that code compares by identity",
        TRAIN,
        """
class Named(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.layer = kind, nn.Linear(6, 3)
    def forward(self, x):
        return self.layer(x) if self.kind is LINEAR else self.layer(x.flip(1))
LINEAR = "linear"
model = Named("linear").double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    ),
    Cell(
        "weak references, locks, and a class that takes from itself what it does not pickle",
        TRAIN,
        """
import threading, weakref
class Guide(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self._model, self.lock, self.scale = (inner,), threading.RLock(), nn.Parameter(torch.ones(3))
        self.me = weakref.ref(self)
    def __getstate__(self):
        self._model = None
        return self.__dict__.copy()
    def forward(self, x):
        with self.lock:
            return self._model[0](x) * self.me().scale
inner = nn.Linear(6, 3)
model = Guide(inner).double()
inner.double()
optimizer = torch.optim.SGD([*model.parameters(), *inner.parameters()], lr=0.1)
""",
        weights="model,inner",
    ),
    Cell(
        "functions and classes that code looks up by text",
        """
for inputs, labels in loader:
    try:
        fit(inputs, labels)
    except globals()["Stop" + "Batch"]:
        continue
""",
        """
class StopBatch(Exception):
    pass
def squared(logits, labels):
    return (logits - F.one_hot(labels, 3)).pow(2).mean()
def fit(inputs, labels, by="squared"):
    optimizer.zero_grad()
    globals()[by](model(inputs), labels).backward()
    optimizer.step()
    raise eval("StopBatch")
""",
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer loaders=loader",
    ),
    Cell(
        "objects that pickle parts of themselves, and a class whose methods read its own objects",
        """
for inputs, labels in loader:
    trainer.fit(inputs, labels)
""",
        """
import pickle
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
    def forward(self, x):
        return self.layer(x)
class Trainer:
    def __init__(self):
        self.net = Inner().double()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def __getstate__(self):
        return {"rest": pickle.dumps((self.net, self.optimizer))}
    def __setstate__(self, state):
        self.net, self.optimizer = pickle.loads(state["rest"])
    def fit(self, inputs, labels):
        self.optimizer.zero_grad()
        (criterion(self.net(inputs), labels) * registry.get(Key(1), 2.0)).backward()
        self.optimizer.step()
class Key:
    def __init__(self, number):
        self.number = number
    def __hash__(self):
        return hash(self.number)
    def __eq__(self, other):
        return self.number == other.number
    def value(self):
        return registry[self]
registry = {Key(1): 0.5}
trainer = Trainer()
""",
        weights="trainer.net",
        roles="models=trainer.net optimizers=trainer.optimizer criteria=criterion loaders=loader",
    ),
    Cell(
        "a model that copies a part of itself when it is pickled",
        TRAIN,
        """
import pickle
class Inner(nn.Linear):
    pass
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layer = Inner(6, 3), nn.Linear(3, 3)
    def __getstate__(self):
        state = self.__dict__.copy()
        state["_modules"] = {"layer": self.layer}
        return {**state, "rest": pickle.dumps(self.inner)}
    def __setstate__(self, state):
        inner = pickle.loads(state.pop("rest"))
        self.__dict__.update(state)
        self._modules = {"inner": inner, **self._modules}
    def forward(self, x):
        return self.layer(self.inner(x))
model = Outer().double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
        refused=dict.fromkeys(("try", "ddp"), "such as the optimizer, also holds 'inner.weight'"),
    ),
)

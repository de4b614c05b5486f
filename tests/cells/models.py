"""What is trained: one network or several, convolutions, recurrence, attention, heads, generators."""

from tests.cells.cell import FUNCTIONAL, PHASES, Cell

CELLS = (
    Cell(
        "convolutions with BatchNorm",
        """
for images, labels in loader:
    optimizer.zero_grad()
    criterion(model(images), labels).backward()
    optimizer.step()
""",
        """
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(torch.randn(64, 1, 6, 6, dtype=torch.float64), y), batch_size=8, shuffle=True)
""",
        plan="channels_last",
        ddp="--batch global --sync-batchnorm",
    ),
    Cell(
        "dropout",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model(inputs), labels).backward()
    optimizer.step()
""",
        """
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
        differs="each rank drops out other units",
    ),
    Cell(
        "generator and discriminator",
        """
for real, _ in loader:
    ones, zeros = torch.ones(len(real), 1, dtype=real.dtype), torch.zeros(len(real), 1, dtype=real.dtype)
    fake = generator(torch.ones(len(real), 2, dtype=real.dtype) * real[:, :2])
    optimizer_d.zero_grad()
    loss_d = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)
    loss_d.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = bce(discriminator(fake), ones)
    loss_g.backward()
    optimizer_g.step()
""",
        """
generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 6)).double()
discriminator = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(), nn.Linear(8, 1)).double()
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
""",
        weights="generator,discriminator",
        roles="models=generator,discriminator optimizers=optimizer_d,optimizer_g criteria=bce loaders=loader",
    ),
    Cell(
        "gradient penalty",
        """
for inputs, _ in loader:
    mixed = inputs.clone().requires_grad_(True)
    score = critic(mixed)
    (slope,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    loss = score.mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)
""",
        weights="critic",
        phases=FUNCTIONAL,
        roles="models=critic optimizers=optimizer loaders=loader",
    ),
    Cell(
        "variational autoencoder",
        """
for inputs, _ in loader:
    optimizer.zero_grad()
    again, mean, log_variance = model(inputs)
    loss = F.mse_loss(again, inputs) - 0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).mean()
    loss.backward()
    optimizer.step()
""",
        """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 4), nn.Linear(2, 6)
    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance

model = VAE().double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer loaders=loader",
        differs="each rank draws its own noise",
    ),
    Cell(
        "contrastive pairs",
        """
for inputs, _ in loader:
    one, other = F.normalize(model(inputs + 0.1), dim=1), F.normalize(model(inputs - 0.1), dim=1)
    loss = F.cross_entropy(one @ other.T / 0.1, torch.arange(len(inputs)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer loaders=loader",
        differs="the negatives of a sample are those of its own rank",
    ),
    Cell(
        "a loss for each of two heads",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    features = body(inputs)
    losses = [F.mse_loss(head(features), target(inputs)) for head, target in zip(heads, targets)]
    sum(losses).backward()
    optimizer.step()
""",
        """
body = nn.Linear(6, 8).double()
heads = nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)]).double()
targets = [lambda z: z.sum(1, keepdim=True), lambda z: z.prod(1, keepdim=True)]
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=1e-2)
""",
        weights="body,heads",
        phases=FUNCTIONAL,
        roles="models=body,heads optimizers=optimizer loaders=loader",
    ),
    Cell(
        "unrolled recurrent network",
        """
for inputs, labels in loader:
    state = torch.zeros(len(inputs), 5, dtype=torch.float64)
    for moment in range(6):
        state = cell(inputs[:, moment:moment + 1], state)
    loss = criterion(readout(state), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
cell, readout = nn.GRUCell(1, 5).double(), nn.Linear(5, 3).double()
optimizer = torch.optim.Adam([*cell.parameters(), *readout.parameters()], lr=1e-2)
""",
        weights="cell,readout",
        roles="models=cell,readout optimizers=optimizer criteria=criterion loaders=loader",
    ),
    Cell(
        "language model as nanoGPT's",
        """
model.train()
for step in range(8):
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * (step + 1) / 8
    xb, yb = get_batch()
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
        """
text = torch.randint(11, (200,))
def get_batch(size=4, block=8):
    starts = torch.randint(len(text) - block - 1, (size,))
    return torch.stack([text[i:i + block] for i in starts]), torch.stack([text[i + 1:i + block + 1] for i in starts])

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.mlp(x)

class GPT(nn.Module):
    def __init__(self, vocabulary=11, width=8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(8, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss

model = GPT().double()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
""",
        samples=4,
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer",
        refused={"ddp": "come from no DataLoader"},
    ),
    Cell(
        "tied weights of an autoencoder",
        """
for inputs, _ in loader:
    optimizer.zero_grad()
    F.mse_loss(model(inputs), inputs).backward()
    optimizer.step()
""",
        """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))
    def forward(self, x):
        return F.linear(F.linear(x, self.weight).tanh(), self.weight.T)

model = Tied().double()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
""",
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer loaders=loader",
    ),
    Cell(
        "frozen backbone",
        """
backbone.requires_grad_(False)
backbone.eval()
for inputs, labels in loader:
    with torch.no_grad():
        features = backbone(inputs)
    optimizer.zero_grad()
    criterion(head(features), labels).backward()
    optimizer.step()
""",
        """
backbone, head = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).double(), nn.Linear(8, 3).double()
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
""",
        weights="backbone,head",
        roles="models=backbone,head optimizers=optimizer criteria=criterion loaders=loader",
    ),
    Cell(
        "distillation",
        """
teacher.eval()
for inputs, labels in loader:
    with torch.no_grad():
        soft = F.softmax(teacher(inputs) / 2, dim=1)
    out = model(inputs)
    loss = F.kl_div(F.log_softmax(out / 2, dim=1), soft, reduction="batchmean") + criterion(out, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        "teacher = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).double()\n",
        weights="model,teacher",
        roles="models=model,teacher optimizers=optimizer criteria=criterion loaders=loader",
    ),
    Cell(
        "activation checkpointing",
        """
from torch.utils.checkpoint import checkpoint
for inputs, labels in loader:
    optimizer.zero_grad()
    hidden = checkpoint(model[:2], inputs, use_reentrant=False)
    criterion(model[2](hidden), labels).backward()
    optimizer.step()
""",
        phases=f"{PHASES} recompute",
    ),
    Cell(
        "autograd function of the notebook",
        """
for inputs, labels in loader:
    optimizer.zero_grad()
    criterion(model[2](Squash.apply(model[0](inputs))), labels).backward()
    optimizer.step()
""",
        """
class Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / (1 + x.abs())
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient / (1 + x.abs()) ** 2
""",
    ),
    Cell(
        "functional gradients of torch.func",
        """
from torch.func import functional_call, grad
def loss_of(weights, inputs, labels):
    return F.cross_entropy(functional_call(model, weights, (inputs,)), labels)

for inputs, labels in loader:
    weights = {name: p.detach() for name, p in model.named_parameters()}
    gradients = grad(loss_of)(weights, inputs, labels)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p -= 0.1 * gradients[name]
""",
        phases="data forward backward",
        roles="models=model loaders=loader",
        plan="intraop_threads(n=2)",
        refused={"ddp": "does not see gradients of torch.func"},
    ),
    Cell(
        "double backward",
        """
for inputs, labels in loader:
    loss = criterion(model(inputs), labels)
    slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    total = loss + 0.01 * sum((slope ** 2).sum() for slope in slopes)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
""",
        differs="the square of a mean gradient is not the mean of the squares",
    ),
    Cell(
        "policy gradient with rollouts",
        """
for episode in range(8):
    state, log_probs, rewards = torch.zeros(6, dtype=torch.float64), [], []  # no batch round it
    for moment in range(5):
        policy = torch.distributions.Categorical(logits=model(state))
        action = policy.sample()
        log_probs.append(policy.log_prob(action))
        state = state + 0.1 * (action.double() - 1)
        rewards.append(-state.abs().sum().item())
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(log_probs) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        samples=1,  # an episode
        phases=FUNCTIONAL,
        roles="models=model optimizers=optimizer",
        refused={"ddp": "come from no DataLoader"},
    ),
    Cell(
        "a fold for each part of the data",
        """
scores = []
for fold in range(2):
    torch.manual_seed(fold)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    part = DataLoader(TensorDataset(x[fold::2], y[fold::2]), batch_size=8, shuffle=True)
    for inputs, labels in part:
        opt.zero_grad()
        nn.CrossEntropyLoss()(net(inputs), labels).backward()
        opt.step()
""",
        weights="net",
        roles="models=net,Sequential_1 optimizers=opt,Adam_1 criteria=CrossEntropyLoss_1 loaders=part,DataLoader_1",
        refused={"export": "no line of the cell builds it under that name"},
    ),
)

"""Training by libraries: Hugging Face Trainer, Accelerate, Lightning, timm; from tiny configurations, nothing downloaded."""

from tests.cells.cell import Cell

HUGGING_FACE = """
import tempfile
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
class Tokens(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        ids = torch.arange(index, index + 8) % 30
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(index % 3)}

folder = tempfile.mkdtemp()
config = BertConfig(vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                    max_position_embeddings=16, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
model = BertForSequenceClassification(config)
arguments = TrainingArguments(folder, per_device_train_batch_size=8, max_steps=8, report_to=[], save_strategy="no",
                              logging_strategy="no", use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False)
"""
LIGHTNING = """
import lightning, logging, warnings
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
class Lit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    def training_step(self, batch, index):
        inputs, labels = batch
        return F.cross_entropy(self.net(inputs), labels)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)

lit = Lit()
"""
LIT_TRAINER = """trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False)
"""

CELLS = (
    Cell(
        "Hugging Face Trainer",
        "trainer = Trainer(model=model, args=arguments, train_dataset=Tokens())\ntrainer.train()\n",
        HUGGING_FACE,
        needs="transformers",
        phases="copy data zero_grad forward backward optimizer",
        plan="intraop_threads(n=2)",
        roles="models=model optimizers=AdamW_1 loaders=DataLoader_1 schedulers=trainer.lr_scheduler",
        near=1e-5,
    ),
    Cell(
        "Hugging Face Trainer of an earlier cell that evaluates after each epoch",
        "trainer.train()\n",
        HUGGING_FACE
        + "arguments.max_steps, arguments.num_train_epochs, arguments.eval_strategy = -1, 2, 'epoch'\n"
        + "trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), eval_dataset=Tokens())\n",
        steps=16,
        needs="transformers",
        phases="copy data zero_grad forward backward optimizer",
        plan="intraop_threads(n=2)",
        roles="models=model optimizers=AdamW_1 loaders=DataLoader_1,DataLoader_2,DataLoader_3 schedulers=trainer.lr_scheduler",
        near=1e-5,
    ),
    Cell(
        "Accelerate",
        """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
prepared, prepared_optimizer, prepared_loader = accelerator.prepare(model, optimizer, loader)
for inputs, labels in prepared_loader:
    prepared_optimizer.zero_grad()
    loss = criterion(prepared(inputs), labels)
    accelerator.backward(loss)
    prepared_optimizer.step()
""",
        needs="accelerate",
        roles="models=model optimizers=optimizer criteria=criterion loaders=prepared_loader.base_dataloader",
    ),
    Cell(
        "Lightning",
        LIT_TRAINER + "trainer.fit(lit, loader)\n",
        LIGHTNING,
        needs="lightning",
        weights="lit",
        phases="copy zero_grad data forward backward optimizer closure",
        refused={"export": "no line of the cell builds it under that name"},
        roles="models=lit optimizers=Adam_1 loaders=loader",
    ),
    Cell(
        "Lightning Trainer of an earlier cell",
        "trainer.fit(lit, loader)\n",
        LIGHTNING + LIT_TRAINER,
        needs="lightning",
        weights="lit",
        phases="copy zero_grad data forward backward optimizer closure",
        refused={
            "try": "a Trainer that counts its epochs",
            "export": "no line of the cell builds it under that name",
        },
        awaits={"keep": "a Trainer that is through trains no more, so that nothing takes effect"},
        roles="models=lit optimizers=Adam_1 loaders=loader",
    ),
    Cell(
        "timm",
        """
for images, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    scheduler.step_update(1)
""",
        """
import timm
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
model = timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=16, patch_size=8, embed_dim=12, depth=1,
                          num_heads=2, num_classes=3).double()
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
scheduler = CosineLRScheduler(optimizer, t_initial=8, t_in_epochs=False)
criterion = LabelSmoothingCrossEntropy()
loader = DataLoader(TensorDataset(torch.randn(64, 3, 16, 16, dtype=torch.float64), y), batch_size=8, shuffle=True)
""",
        needs="timm",
    ),
)

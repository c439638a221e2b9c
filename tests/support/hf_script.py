"""Programs as people write them, one a run: python hf_script.py loaded|accelerate|lightning MODEL_FOLDER

They know nothing of outsize, and end with a line of JSON: losses and a hash of the weights.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from hugging_face import STEPS, data, load
from record import digest


def report(losses: list[torch.Tensor], model: torch.nn.Module) -> None:
    weights = [digest(parameter) for parameter in model.parameters()]
    print(json.dumps({"losses": [loss.item().hex() for loss in losses], "weights": weights}), flush=True)


def loaded(folder: Path) -> None:
    model = load(folder)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(STEPS):
        batch = torch.randint(512, (2, 32))
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    report(losses, model)


def accelerate(folder: Path) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = load(folder).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(data(), batch_size=4, shuffle=True)  # type: ignore[arg-type]
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        optimizer.zero_grad()
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    report(losses, model)


def lightning(folder: Path) -> None:
    """Two epochs; then the second one again, resumed from the checkpoint that ended the first."""
    import lightning as L
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = load(folder).train()
            self.losses: list[torch.Tensor] = []

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss: torch.Tensor = self.model(**batch).loss
            self.losses.append(loss.detach())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def fit(resume: Path | None) -> Module:
        torch.manual_seed(3)
        saving = ModelCheckpoint(folder / "lightning", filename="{epoch}", save_top_k=-1)
        trainer = L.Trainer(
            accelerator="cpu", max_epochs=2, logger=False, callbacks=[saving], precision=32,
            enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0,
        )  # fmt: skip
        module = Module()
        loader = torch.utils.data.DataLoader(data()[:8], batch_size=4)  # type: ignore[arg-type]
        trainer.fit(module, loader, ckpt_path=resume, weights_only=False)
        return module

    losses = fit(None).losses
    module = fit(folder / "lightning" / "epoch=0.ckpt")
    report(losses + module.losses, module)


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.manual_seed(0)
    {"loaded": loaded, "accelerate": accelerate, "lightning": lightning}[sys.argv[1]](Path(sys.argv[2]))

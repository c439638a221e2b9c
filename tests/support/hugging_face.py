"""Runs Hugging Face programs plain and then under budgets, all in this process; reports as JSON.

    python hugging_face.py OUTPUT.json --faults userfaultfd|signal|auto [--jail]

The model's files are made here, from random weights. Nothing is fetched.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jail

MIB = 1 << 20
STEPS = 5
BOTH = (50, 25)  # per cent
LORA_RANK = 4


@dataclass(frozen=True)
class Program:
    """`make` gives the model, before the budget is in force or after; `train` does the rest."""

    make: Callable[[Path], Any]
    train: Callable[[Any, Any, Path], None]
    states_per_weight: int  # what a budget is a share of: so many times the bytes of the weights
    shares: tuple[int, ...] = (25,)
    before: bool = False
    log: bool = False  # count what was written of the extents that outlive training


# --- models ---------------------------------------------------------------------------------------


def config(layers: int) -> Any:
    """Every weight matrix has 1 MiB at least."""
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=512, n_positions=32, n_embd=512, n_layer=layers, n_head=8, resid_pdrop=0.1,
        use_cache=False, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM",
    )  # fmt: skip


def build(layers: int) -> Any:
    import torch
    from transformers import GPT2LMHeadModel

    torch.manual_seed(11)
    return GPT2LMHeadModel(config(layers))


def load(folder: Path) -> Any:
    import torch
    from transformers import GPT2LMHeadModel

    torch.manual_seed(11)
    return GPT2LMHeadModel.from_pretrained(folder)


def weight_bytes(model: Any) -> int:
    return sum(p.nbytes for p in model.parameters())


def save_pretrained(folder: Path, layers: int) -> Path:
    build(layers).save_pretrained(folder)
    assert (folder / "model.safetensors").exists()
    return folder


# --- training -------------------------------------------------------------------------------------


def tokens(batch: int, length: int) -> Any:
    import torch

    return torch.randint(512, (batch, length))


def train(model: Any, record: Any, folder: Path, steps: int = STEPS) -> None:
    import torch

    model.train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    for _ in range(steps):
        batch = tokens(2, 32)
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        record.add("loss", loss)
        optimizer.step()
    record.model(model.parameters(), model.buffers())
    record.optimizer(optimizer)


def train_lora(model: Any, record: Any, folder: Path) -> None:
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=LORA_RANK, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)
    train(get_peft_model(model, lora), record, folder, steps=3)


def arguments(folder: Path, **more: Any) -> Any:
    """TrainingArguments as they come, but for what a test cannot do without."""
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=str(folder), use_cpu=True, max_steps=4, save_steps=2, logging_steps=1,
        per_device_train_batch_size=2, disable_tqdm=True, report_to="none", **more,
    )  # fmt: skip


def data() -> list[dict[str, Any]]:
    import torch

    generator = torch.Generator().manual_seed(5)
    rows = torch.randint(512, (16, 32), generator=generator)
    return [{"input_ids": row, "labels": row} for row in rows]


def hash_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def run_trainer(model: Any, record: Any, folder: Path, resume: Path | None) -> None:
    from transformers import Trainer

    trainer = Trainer(
        model=model, args=arguments(folder, gradient_checkpointing=True), train_dataset=data()
    )
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    assert trainer.args.optim == "adamw_torch_fused", trainer.args.optim
    assert trainer.optimizer.optimizer.defaults["fused"]
    for entry in trainer.state.log_history:
        record.entries.append((f"step {entry['step']}", repr((entry.get("loss"), entry.get("grad_norm")))))
    record.model(model.parameters())
    record.optimizer(trainer.optimizer)


def train_with_trainer(model: Any, record: Any, folder: Path) -> None:
    """Four steps with two checkpoints; and steps 3 and 4 again, resumed from the first of them."""
    run_trainer(model, record, folder / "whole", None)
    checkpoint = folder / "whole" / "checkpoint-2"
    for name in ("model.safetensors", "optimizer.pt"):
        record.entries.append((name, hash_of(checkpoint / name)))
    del model
    gc.collect()
    run_trainer(load(checkpoint), record, folder / "resumed", checkpoint)


PROGRAMS = {
    "loaded": Program(load, train, 4, BOTH),
    "loaded before": Program(load, train, 4, before=True),
    "built before": Program(lambda _: build(3), train, 4, before=True),
    "lora": Program(load, train_lora, 1, BOTH, log=True),
    "lora, loaded before": Program(load, train_lora, 1, before=True, log=True),
    "lora, built before": Program(lambda _: build(6), train_lora, 1, before=True, log=True),
    "lora, built": Program(lambda _: build(6), train_lora, 1, log=True),
    "trainer": Program(load, train_with_trainer, 4, BOTH),
}


# --- what was written -----------------------------------------------------------------------------


def writes_of_survivors(log: Path) -> dict[str, dict[str, int]]:
    """By where they came from, the large extents that were alive at the end: how many bytes they
    have, how often they left, how many bytes were written, and how often one was written at most
    between two ops that might have changed it."""
    origin: dict[str, str] = {}
    size: dict[str, int] = {}
    writes: dict[str, int] = {}
    since: dict[str, int] = {}
    most: dict[str, int] = {}
    evictions: dict[str, int] = {}
    for line in log.read_text().splitlines()[1:]:
        side, what, *rest = line.split()
        fields = {word[0]: word[1:] for word in rest}
        extent = fields.get("e", "")
        if side == ">" and what in ("alloc", "adopt"):
            flagged = int(fields.get("f", "0")) & 1
            if what == "adopt":
                origin[extent] = "mapped" if flagged else "adopted"
            else:
                origin[extent] = "shared" if flagged else "born"
            size[extent] = int(fields["b"])
            writes[extent] = since[extent] = most[extent] = evictions[extent] = 0
        elif side == ">" and what == "op":
            for word in rest:
                if word[0] == "w":  # operands are counted from zero, extents elsewhere from one
                    since[str(int(word[1:]) + 1)] = 0
        elif side == ">" and what == "death":
            origin[extent] = "dead"
        elif side == "<" and what == "write":
            writes[extent] += 1
            since[extent] += 1
            most[extent] = max(most[extent], since[extent])
        elif side == "<" and what == "evict":
            evictions[extent] += 1
    found: dict[str, dict[str, int]] = {}
    for kind in ("mapped", "adopted", "born"):
        ids = [extent for extent, whence in origin.items() if whence == kind]
        found[kind] = {
            "bytes": sum(size[i] for i in ids),
            "evictions": sum(evictions[i] for i in ids),
            "written": sum(size[i] * writes[i] for i in ids),
            "most": max((most[i] for i in ids), default=0),
        }
    return found


# --- running --------------------------------------------------------------------------------------


def run_program(program: Program, files: Path, model: Any = None) -> tuple[list[Any], Any]:
    import torch
    from record import Record

    with tempfile.TemporaryDirectory(prefix="run-", dir=files.parent) as folder:
        model = program.make(files) if model is None else model
        torch.manual_seed(12)
        record = Record()
        program.train(model, record, Path(folder))
    return record.entries, model


def under(program: Program, files: Path, budget: int, faults: str) -> dict[str, Any]:
    import outsize

    log = files.parent / "decisions" if program.log else None
    model = program.make(files) if program.before else None
    with outsize.budget(budget, faults=faults, decision_log=log or ""):
        entries, model = run_program(program, files, model)
    result: dict[str, Any] = {
        "budget": budget, "entries": entries, "stats": outsize.stats().as_dict()
    }  # fmt: skip
    if log:
        result["writes"] = writes_of_survivors(log)
    del model
    gc.collect()
    return result


def measure(names: list[str], faults: str, folder: Path) -> dict[str, Any]:
    import torch
    from transformers.utils import logging

    torch.set_num_threads(2)
    logging.disable_progress_bar()
    files = {layers: save_pretrained(folder / f"model-{layers}", layers) for layers in (3, 6)}
    report: dict[str, Any] = {}
    plain: dict[Any, Any] = {}  # what differs only in what happens before the budget is one program
    for name in names:
        program = PROGRAMS[name]
        mine = files[3 if program.states_per_weight > 1 else 6]
        whole = program.states_per_weight * weight_bytes(build(int(mine.name[-1])))
        if program.train not in plain:
            plain[program.train] = run_program(program, mine)[0]
        runs = {}
        for share in program.shares:
            runs[str(share)] = under(program, mine, whole * share // 100, faults)
        report[name] = {"plain": plain[program.train], "whole": whole, "runs": runs}
    return report


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    jail.add_options(parser)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    args = parser.parse_args()
    if args.jail:
        jail.enter()
    disk = os.environ.get("TMPDIR") or "/var/tmp"
    with tempfile.TemporaryDirectory(prefix="outsize-test-", dir=disk) as folder:
        report = measure(args.programs, args.faults, Path(folder))
    with open(args.output, "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main()

"""Step times of a GPT-2-medium-like model with the means PyTorch has: points to refer to later."""

from __future__ import annotations

import contextlib
import statistics
import time

import torch

MIB = 1 << 20


def step_times(batch: int = 8, length: int = 1024, steps: int = 5) -> dict:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.backends.cuda.matmul.allow_tf32 = True
    rows = []
    for way in ("plain", "checkpointing", "save_on_cpu(pin_memory=True)"):
        torch.manual_seed(1)
        model = GPT2LMHeadModel(GPT2Config(
            n_embd=1024, n_layer=24, n_head=16, n_positions=length, attn_implementation="sdpa", use_cache=False)).cuda()
        model.train()
        if way == "checkpointing":
            model.gradient_checkpointing_enable({"use_reentrant": False})
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        torch.cuda.reset_peak_memory_stats()
        seconds = []
        for _ in range(2 + steps):
            tokens = torch.randint(0, 50257, (batch, length), device="cuda")
            torch.cuda.synchronize()
            start = time.perf_counter()
            hooks = torch.autograd.graph.save_on_cpu(pin_memory=True) if "cpu" in way else contextlib.nullcontext()
            with hooks, torch.autocast("cuda", torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        rows.append({
            "way": way, "ms a step": round(statistics.median(seconds[2:]) * 1e3, 1),
            "least": round(min(seconds[2:]) * 1e3, 1), "most": round(max(seconds[2:]) * 1e3, 1),
            "allocated MiB": torch.cuda.max_memory_allocated() // MIB,
            "reserved MiB": torch.cuda.max_memory_reserved() // MIB})
        del model, optimizer, loss
        torch.cuda.empty_cache()
    return {"rows": rows, "model": f"24 layers, 1024 wide, batch {batch} x {length}, bf16 autocast, AdamW"}

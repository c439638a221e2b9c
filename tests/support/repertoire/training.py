"""Optimizers, schedulers, averaged weights, accumulation: what surrounds a model in training."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn
from torch.nn.utils import prune

PROGRAMS = Registry()
program = PROGRAMS.add
WIDTH = 384  # a weight is 576 KiB


def stack(layers: int = 12, width: int = WIDTH) -> nn.Sequential:
    return nn.Sequential(
        *(m for _ in range(layers) for m in (nn.Linear(width, width), nn.Tanh()))
    )


def batches(count: int, width: int = WIDTH) -> Iterator[tuple[Tensor, Tensor]]:
    for _ in range(count):
        yield torch.randn(128, width), torch.randn(128, width)


def fit(record: Record, model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    for x, y in batches(steps, next(model.parameters()).shape[-1]):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        record.add("loss", loss)
    record.model(model.parameters(), model.buffers())
    record.optimizer(optimizer)


def adamw(record: Record, model: nn.Module, **options: bool) -> None:
    fit(record, model, torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.1, **options))


@program
def adamw_forloop(record: Record) -> None:
    adamw(record, stack(), foreach=False)


@program
def adamw_foreach(record: Record) -> None:
    adamw(record, stack(), foreach=True)


@program
def adamw_fused(record: Record) -> None:
    """A fused step is cut into pieces of 16 MiB, which must fit."""
    adamw(record, stack(24, 512), fused=True)


@program
def adamw_amsgrad(record: Record) -> None:
    adamw(record, stack(), foreach=True, amsgrad=True, maximize=True)


@program
def other_optimizers(record: Record) -> None:
    optim = torch.optim
    kinds = (optim.Adagrad, optim.RMSprop, optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam,
             optim.Rprop, optim.ASGD)
    for index, kind in enumerate(kinds):
        model = stack(8)
        fit(record, model, kind(model.parameters(), 1e-3, foreach=index % 2 == 0), 2)


@program
def fused_sgd(record: Record) -> None:
    model = stack(36, 512)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, nesterov=True, fused=True)
    fit(record, model, optimizer, 2)


@program
def muon(record: Record) -> None:
    model = stack(16)
    weights = [p for p in model.parameters() if p.ndim == 2]
    fit(record, model, torch.optim.Muon(weights, 1e-3))


@program
def lbfgs(record: Record) -> None:
    """The whole model is one vector here, eight of them in its history."""
    model = stack(4, 256)
    x, y = torch.randn(64, 256), torch.randn(64, 256)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=6, history_size=8,
                                  line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        record.add("loss", optimizer.step(closure))
    record.model(model.parameters())


@program
def clipping(record: Record) -> None:
    """By norm in one sweep over all gradients and one by one, and by value both ways."""
    model = stack(16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True)
    for step, (x, y) in enumerate(batches(4)):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        F.mse_loss(model(x), y).backward()
        if step < 2:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=step == 0)
            record.add("norm", norm)
        else:
            nn.utils.clip_grad_value_(model.parameters(), 1e-5, foreach=step == 2)
        optimizer.step()
    record.model(model.parameters())


@program
def schedulers(record: Record) -> None:
    lr = torch.optim.lr_scheduler
    model = stack(16)
    optimizer = torch.optim.AdamW(model.parameters(), torch.tensor(1e-3))
    warm = lr.LinearLR(optimizer, 0.1, total_iters=2)
    cosine = lr.CosineAnnealingWarmRestarts(optimizer, 2)
    plan = lr.SequentialLR(optimizer, [warm, cosine], milestones=[2])
    plateau = lr.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for x, y in batches(5):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        plan.step()
        plateau.step(loss.item())
        record.add("rate", torch.as_tensor(optimizer.param_groups[0]["lr"]))
    model = stack(8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    cycle = lr.OneCycleLR(optimizer, 0.5, total_steps=4)
    for x, y in batches(3):
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        cycle.step()
        record.add("rate", torch.tensor(cycle.get_last_lr(), dtype=torch.float64))
    record.model(model.parameters())


@program
def averaged_weights(record: Record) -> None:
    """A copy kept by hand, one by torch's averaging, one by its multi-tensor average."""
    swa = torch.optim.swa_utils
    model = nn.Sequential(stack(10), nn.BatchNorm1d(WIDTH))
    by_hand = copy.deepcopy(model)
    averaged = swa.AveragedModel(model, use_buffers=True)
    moving = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in batches(3):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        averaged.update_parameters(model)
        moving.update_parameters(model)
        with torch.no_grad():
            for ours, theirs in zip(by_hand.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs, 0.1)
    swa.update_bn([x for x, _ in batches(2)], averaged)
    for net in (model, by_hand, averaged, moving):
        record.model(net.parameters(), net.buffers())


@program
def accumulation(record: Record) -> None:
    model = stack(16)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(2):
        for x, y in batches(3):
            loss = F.mse_loss(model(x), y) / 3
            loss.backward()
            record.add("loss", loss)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    record.model(model.parameters())


@program
def optimizer_in_backward(record: Record) -> None:
    """Every weight is stepped as soon as its gradient is whole, and the gradient is dropped."""
    model = stack(16)
    optimizers = {p: torch.optim.Adam([p], 1e-3) for p in model.parameters()}

    def step(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    handles = [p.register_post_accumulate_grad_hook(step) for p in model.parameters()]
    for x, y in batches(3):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        record.add("loss", loss)
    record.model(model.parameters())
    for handle in handles:  # hook and weight hold each other, unseen by Python's collector
        handle.remove()


@program
def resumed(record: Record) -> None:
    """State goes to another model and optimizer through their state_dicts and through copies."""
    model = stack(8)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    fit(record, model, optimizer, 2)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    del model, optimizer
    model = stack(8)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=False)
    model.load_state_dict(weights, assign=True)
    optimizer.load_state_dict(state)
    fit(record, model, optimizer, 2)
    model.load_state_dict(weights)
    fit(record, model, optimizer, 1)


@program
def mixed_precision(record: Record) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.LayerNorm(512), nn.GELU())
                            for _ in range(24)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for x, y in batches(2, 512):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x)
        assert out.dtype == torch.bfloat16
        loss = F.mse_loss(out.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        record.add("loss", loss, out)
    record.model(model.parameters())


@program
def low_precision_weights(record: Record) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        model = stack(12, 640).to(dtype)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
        for x, y in batches(2, 640):
            optimizer.zero_grad()
            F.mse_loss(model(x.to(dtype)), y.to(dtype)).backward()
            optimizer.step()
        record.model(model.parameters())


@program
def tied_weights(record: Record) -> None:
    words = nn.Embedding(1500, 256)
    middle = stack(30, 256)
    head = nn.Linear(256, 1500, bias=False)
    head.weight = words.weight
    model = nn.ModuleList([words, middle, head])
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(3):
        x = torch.randint(1500, (16, 24))
        loss = F.cross_entropy(head(middle(words(x))).flatten(0, 1), x.roll(1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.add("loss", loss)
    record.model(model.parameters())


@program
def parametrized(record: Record) -> None:
    p = nn.utils.parametrizations
    kinds = (p.weight_norm, p.spectral_norm,
             functools.partial(p.orthogonal, orthogonal_map="cayley"))
    layers = [kinds[i % 3](nn.Linear(256, 256)) for i in range(27)]
    old = [nn.Linear(256, 256) for _ in range(3)]
    model = nn.Sequential(*layers, *old)
    for layer in old:
        prune.l1_unstructured(layer, "weight", amount=0.3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in batches(2, 256):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    record.model(model.parameters(), model.buffers())
    nn.utils.parametrize.remove_parametrizations(layers[0], "weight")
    record.add("removed", layers[0].weight)


@program
def as_one_vector(record: Record) -> None:
    models = [stack(4, 256) for _ in range(10)]
    vectors = [nn.utils.parameters_to_vector(m.parameters()) for m in models]
    for index, model in enumerate(models):
        moved = vectors[index - 1].detach() * 0.9 + vectors[index - 2].detach() * 0.1
        nn.utils.vector_to_parameters(moved, model.parameters())
        model(torch.randn(64, 256)).square().mean().backward()
        nn.utils.parameters_to_vector(p.grad for p in model.parameters()).norm().item()
        record.model(model.parameters())


@program
def errors_half_way(record: Record) -> None:
    """A step that ends in an exception, in forward, backward, a hook or an op; training goes on."""
    model = stack(16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def fails(*_: object) -> None:
        raise ArithmeticError("stop")

    def with_hook(x: Tensor) -> None:
        handle = model[10].register_full_backward_hook(fails)
        try:
            model(x).sum().backward()
        finally:
            handle.remove()

    def with_forward_hook(x: Tensor) -> None:
        with model[12].register_forward_pre_hook(fails):
            model(x)

    def with_wrong_shape(x: Tensor) -> None:
        model(x)[:, :7] @ x

    def with_grad_hook(x: Tensor) -> None:
        out = model(x)
        out.register_hook(fails)
        out.sum().backward()

    def with_changed_activation(x: Tensor) -> None:
        out = model(x)
        torch.tanh(out).sum().add_(out.zero_().sum()).backward()

    for broken in (with_hook, with_forward_hook, with_wrong_shape, with_grad_hook,
                   with_changed_activation):
        x, y = torch.randn(128, WIDTH), torch.randn(128, WIDTH)
        optimizer.zero_grad()
        try:
            broken(x)
            record.add("no error", None)
        except (ArithmeticError, RuntimeError) as error:
            record.add(type(error).__name__ + str(error)[:40], None)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        record.add("loss", loss)
    record.model(model.parameters())

"""Bytes that go in and out of PyTorch: files, arrays, other processes, raw pointers."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from record import Record
from registry import Registry
from torch import Tensor, nn

PROGRAMS = Registry()
program = PROGRAMS.add
SIDE = 512  # a megabyte of floats


def squares(count: int) -> list[Tensor]:
    return [torch.randn(SIDE, SIDE) for _ in range(count)]


def pass_over(tensors: list[Tensor]) -> None:
    """Reads and writes each, so that under a budget most of them go and come."""
    for index, tensor in enumerate(tensors):
        tensor.mul_(0.9).add_(tensors[index - 1], alpha=0.01)


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="outsize-test-") as name:
        yield Path(name)


@program
def saved_and_loaded(record: Record) -> None:
    """torch.save in both formats, to a file and to memory; loaded eagerly and mapped; pickled."""
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(10)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    model(torch.randn(64, SIDE)).square().mean().backward()
    optimizer.step()
    with folder() as where:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, where / "a")
        torch.save(model.state_dict(), where / "b", _use_new_zipfile_serialization=False)
        kept = squares(6)
        pass_over(kept)
        for mapped in (False, True):
            state = torch.load(where / "a", mmap=mapped, weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            model(torch.randn(64, SIDE)).square().mean().backward()
            optimizer.step()
            record.model(model.parameters())
            record.optimizer(optimizer)
        model.load_state_dict(torch.load(where / "b"))
        record.model(model.parameters())
        del state
    buffer = io.BytesIO()
    torch.save([tensor[:100] for tensor in kept], buffer)
    buffer.seek(0)
    record.add("parts", *torch.load(buffer), *pickle.loads(pickle.dumps(kept)))


@program
def safe_tensors(record: Record) -> None:
    from safetensors import safe_open
    from safetensors.torch import load_file, save, save_file

    tensors = {f"w{i}": t for i, t in enumerate(squares(48))}
    pass_over(list(tensors.values()))
    with folder() as where:
        save_file(tensors, where / "a.safetensors", metadata={"kind": "test"})
        loaded = load_file(where / "a.safetensors")
        pass_over(list(loaded.values()))
        with safe_open(where / "a.safetensors", "pt") as file:
            for name in file.keys():
                loaded[name].sub_(file.get_tensor(name)).add_(file.get_slice(name)[3:4])
        record.add("loaded", *loaded.values())
        record.add("bytes", torch.frombuffer(bytearray(save({"a": tensors["w3"]})), dtype=torch.uint8))
    record.add("kept", *tensors.values())


@program
def dlpack_and_numpy(record: Record) -> None:
    tensors = squares(20)
    views = [tensor.numpy() for tensor in tensors[:6]]
    capsules = [np.from_dlpack(tensor) for tensor in tensors[6:12]]
    twins = [torch.from_dlpack(tensor) for tensor in tensors[12:16]]
    twins += [torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t)) for t in tensors[16:]]
    ours = [np.full((SIDE, SIDE), i, dtype=np.float32) for i in range(4)]
    theirs = [torch.from_numpy(array) for array in ours]
    for step in range(3):
        pass_over(tensors)
        for view in views:
            view += step
            np.sin(view, out=view)
        for twin in twins:
            twin[step::7] += 1
        total = sum(float(array[:, step].sum(dtype=np.float64)) for array in capsules)
        for array, tensor in zip(ours, theirs, strict=True):
            array[step] = total
            tensor.add_(tensors[step])
        record.add("total", torch.tensor(total), torch.as_tensor(tensors[step + 6].__array__()))
        record.add("memory", torch.frombuffer(memoryview(views[step]), dtype=torch.float32))
        record.add("list", torch.tensor(tensors[step].tolist()), torch.tensor(np.asarray(twins[0])))
    record.add("all", *tensors, *theirs)


def read_in_child(inbox: Any, outbox: Any) -> None:
    """Doubles what comes, in place, and answers with the sum and a tensor of its own."""
    for tensor in iter(inbox.get, None):
        tensor.mul_(2)
        outbox.put((tensor.double().sum().item(), tensor[:64] + 1))
        inbox.task_done()
    outbox.put(None)
    inbox.task_done()


@program
def sent_to_a_child(record: Record) -> None:
    """Tensors go through a queue of torch.multiprocessing into shared memory, and come back."""
    context = torch.multiprocessing.get_context("fork")
    tensors = squares(16)
    pass_over(tensors)
    inbox, outbox = context.JoinableQueue(), context.Queue()
    child = context.Process(target=read_in_child, args=(inbox, outbox))
    child.start()
    for tensor in tensors[::3]:
        inbox.put(tensor)
        total, answer = outbox.get(timeout=120)
        record.add("answer", torch.tensor(total), answer)
        pass_over(tensors)
    inbox.put(None)
    assert outbox.get(timeout=120) is None
    child.join(120)
    assert child.exitcode == 0
    record.add("all", *tensors)


@program
def shared_memory(record: Record) -> None:
    """A model in shared memory, trained by a child on the parent's own bytes (as Hogwild does)."""
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(6)))
    kept = squares(14)
    pass_over(kept)
    model.share_memory()
    for strategy in ("file_descriptor", "file_system"):
        torch.multiprocessing.set_sharing_strategy(strategy)
        tensor = kept[5].clone().share_memory_()
        context = torch.multiprocessing.get_context("fork")
        child = context.Process(target=step_in_child, args=(model, tensor))
        child.start()
        pass_over(kept)
        child.join(120)
        assert child.exitcode == 0
        record.add("shared", tensor)
        record.model(model.parameters())
    torch.multiprocessing.set_sharing_strategy("file_descriptor")
    record.add("kept", *kept)


def step_in_child(model: nn.Module, tensor: Tensor) -> None:
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(64, SIDE, generator=generator)).square().mean().backward()
    optimizer.step()
    tensor.sub_(7)


@program
def raw_pointers(record: Record) -> None:
    """C functions that get a tensor's address and know nothing of PyTorch: they write, copy, sort."""
    libc = ctypes.CDLL(None)
    libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    tensors = squares(20)
    pointers = [tensor.data_ptr() for tensor in tensors]
    for step in range(4):
        pass_over(tensors)
        for a, b in zip(pointers[::4], pointers[1::4], strict=True):
            libc.memcpy(a + 4096 * step, b, 300_000)
            libc.memset(b + 70_000, step, 1234)
        assert libc.memcmp(pointers[1], tensors[1].data_ptr(), tensors[1].nbytes) == 0
        bytes_of = (ctypes.c_float * (SIDE * SIDE)).from_address(pointers[2])
        for index in range(0, SIDE * SIDE, 4099):
            bytes_of[index] = bytes_of[index + 1] + step
        storage = tensors[3].untyped_storage()
        storage[step * 1000] = 77
        record.add("bytes", torch.tensor(list(storage[5000:5100])))
    record.add("all", *tensors)


@program
def files_as_tensors(record: Record) -> None:
    """Mapped files, private and shared; tensors that write themselves to files."""
    tensors = squares(16)
    pass_over(tensors)
    with folder() as where:
        for index, tensor in enumerate(tensors[:4]):
            np.save(where / f"{index}.npy", tensor.clone().numpy())
        mapped = [torch.from_numpy(np.load(where / f"{i}.npy", mmap_mode="c")) for i in range(4)]
        shared = torch.from_file(str(where / "shared"), shared=True, size=SIDE * SIDE)
        private = torch.from_file(str(where / "0.npy"), shared=False, size=SIDE * SIDE)
        for step in range(2):
            pass_over(tensors + mapped)
            shared.copy_(tensors[step].view(-1))
            private.add_(shared)
            record.add("file", torch.from_numpy(np.fromfile(where / "shared", dtype=np.float32)))
        record.add("all", *tensors, *mapped, shared, private)
        del shared, private, mapped


class Rows(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    def __init__(self) -> None:
        self.parts = squares(12)

    def __len__(self) -> int:
        return SIDE * len(self.parts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self.parts[index // SIDE][index % SIDE]
        return row, row.roll(1)


def loaders(data: Rows) -> Iterator[Any]:
    make: Callable[..., Any] = torch.utils.data.DataLoader
    generator = torch.Generator().manual_seed(1)
    subset = torch.utils.data.Subset(data, range(0, len(data), 2))
    parts = torch.utils.data.random_split(data, [0.25, 0.75], generator=generator)
    weights = torch.utils.data.WeightedRandomSampler(torch.ones(len(data)), 700, generator=generator)
    yield make(subset, batch_size=256, shuffle=True, generator=generator)
    yield make(parts[0], batch_size=256, num_workers=1, persistent_workers=True, generator=generator)
    yield make(torch.utils.data.TensorDataset(*data.parts[:2]), batch_size=100, drop_last=True)
    yield make(data, sampler=weights, batch_size=128, collate_fn=lambda rows: [
        torch.stack(column) for column in zip(*rows, strict=True)])


@program
def data_loaders(record: Record) -> None:
    data = Rows()
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(12)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for loader in loaders(data):
        for _, (x, y) in zip(range(4), loader, strict=False):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            record.add("loss", loss)
    record.model(model.parameters())
    record.add("data", *data.parts)


@program
def copies_and_deaths(record: Record) -> None:
    """Deep copies, names taken away early, cycles, tensors kept alive by a view alone."""
    kept = []
    for step in range(24):
        fresh = squares(3)
        copied = copy.deepcopy({"a": fresh, "b": fresh[0], "c": copy.copy(fresh[1])})
        assert copied["a"][0] is copied["b"]
        kept.append(fresh[2][step : step + 2])  # two rows keep a megabyte
        watched = weakref.ref(fresh[1])
        cycle: dict[str, Any] = {"t": fresh[1]}
        cycle["self"] = cycle
        del fresh, cycle
        if step % 5 == 4:
            gc.collect()
        record.add("copied", copied["c"])
        del copied
        assert step % 5 != 4 or watched() is None
    clone = kept[0].untyped_storage().clone()
    record.add("kept", *kept, torch.empty(0).set_(clone, 0, (SIDE, SIDE)))

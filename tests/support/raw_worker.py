"""Touches the bytes of spilled tensors behind PyTorch's back, one case in a fresh process.

    python raw_worker.py OUTPUT.json CASE FOLDER --faults userfaultfd|signal|auto [--jail]

What bytes must be there is computed by NumPy alone. That a tensor's bytes are out of RAM, or in RAM
and protected, is asked of the kernel.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import json
import os
import random
import re
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jail
import numpy as np
from registry import Registry

MIB = 1 << 20
BUDGET = 24 * MIB
LENGTH = MIB  # numbers in a tensor: 4 MiB
PAGE = os.sysconf("SC_PAGE_SIZE")
BEFORE: list[Any] = []  # tensors born before the budget
CASES: Registry[Callable[[Path], None]] = Registry()
case = CASES.add


def pattern(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(LENGTH, dtype=np.float32)


def spillable(seed: int) -> Any:
    """A tensor with the bytes of pattern(seed), in outsize's own memory."""
    import torch

    return torch.from_numpy(pattern(seed)).clone()


def address_of(tensor: Any) -> int:
    """Not by the method that outsize watches: it must not know that we have the address."""
    import torch

    return torch._C.TensorBase.data_ptr(tensor)


def pages_of(tensor: Any) -> list[int]:
    """The kernel's entry for each page of a tensor, which it gives without touching the page."""
    first, count = address_of(tensor) // PAGE, -(-tensor.untyped_storage().nbytes() // PAGE)
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(first * 8)
        return list(struct.unpack(f"{count}Q", file.read(count * 8)))


def present(tensor: Any) -> int:
    return sum(entry >> 63 for entry in pages_of(tensor))


def guarded(tensor: Any) -> bool:
    """Whether a write to its first page would be noticed."""
    address = address_of(tensor)
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # type: ignore[union-attr]
        if int(begin, 16) <= address < int(end, 16):
            return rights.startswith("r-") or bool(pages_of(tensor)[0] >> 57 & 1)
    raise AssertionError("not mapped")


def evict(*tensors: Any) -> None:
    """Uses more tensors than the budget holds until not a page of these is in RAM."""
    import torch

    import outsize

    before = outsize.stats().evictions
    odd = int(bool(BEFORE))  # a page at the ends that is not ours
    for _ in range(8):
        filler = [torch.full((LENGTH,), 1.0) for _ in range(BUDGET // MIB // 4 + 2)]
        for tensor in filler:
            tensor.add_(1)
        del filler
        if all(present(tensor) <= odd for tensor in tensors):
            assert outsize.stats().evictions > before
            return
    raise AssertionError(f"not evicted: {[present(tensor) for tensor in tensors]} pages are in RAM")


def fetch_clean(*tensors: Any) -> None:
    """Reads by ops: the bytes are in RAM and the copy in the file is as good."""
    for tensor in tensors:
        tensor.sum()
        assert present(tensor) > 0


def right(seen: Any, wanted: np.ndarray, what: str) -> None:
    assert bytes(memoryview(seen).cast("B")) == wanted.tobytes(), what


def in_thread(function: Callable[[], Any]) -> Any:
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


@case
def views_read(folder: Path) -> None:
    """Views taken before the bytes leave, and after."""
    tensors = [spillable(seed) for seed in range(4)]
    array, buffer = tensors[0].numpy(), memoryview(tensors[1].numpy())
    pointer = tensors[2].data_ptr()
    for _ in range(3):
        evict(*tensors)
        right(array, pattern(0), "numpy")
        right(buffer, pattern(1), "memoryview")
        read = in_thread(lambda: ctypes.string_at(pointer, LENGTH * 4))
        right(read, pattern(2), "data_ptr, another thread")
        evict(*tensors)
        right(tensors[3].numpy(), pattern(3), "numpy, taken now")
        evict(*tensors)
        one = in_thread(lambda: ctypes.c_float.from_address(pointer + 4 * 777_777).value)
        assert one == pattern(2)[777_777]
        assert array[-1] == pattern(0)[-1] and buffer[5] == pattern(1)[5]
        part = np.frombuffer((ctypes.c_char * 40_000).from_address(pointer + 8000), np.float32)
        right(part, pattern(2)[2000:12_000], "the middle")


@case
def views_of_views(folder: Path) -> None:
    """Offsets, strides, other types, DLPack, and a NumPy base that outlives its tensor."""
    import torch

    tensor, other = spillable(1), spillable(2)
    square = tensor.view(1024, 1024)
    wanted = pattern(1).reshape(1024, 1024)
    views = {"rows": square[10:20].numpy(), "transposed": square.t().numpy(),
             "bytes": tensor.view(torch.uint8).numpy(), "dlpack": np.from_dlpack(tensor),
             "asarray": np.asarray(square[:, 3])}  # fmt: skip
    expected = {"rows": wanted[10:20], "transposed": wanted.T, "bytes": pattern(1).view(np.uint8),
                "dlpack": pattern(1), "asarray": wanted[:, 3]}  # fmt: skip
    for name, view in views.items():
        evict(tensor)
        assert np.array_equal(view, expected[name]), name
    kept = other.numpy()
    evict(other)
    del other
    right(kept, pattern(2), "the view alone keeps the bytes")


def write_numpy(tensor: Any) -> None:
    tensor.numpy()[::1000] = -3.0


def write_memoryview(tensor: Any) -> None:
    buffer = memoryview(tensor.numpy())
    for index in range(0, LENGTH, 1000):
        buffer[index] = -3.0


def write_pointer(tensor: Any) -> None:
    """Through an address that outsize was never asked for; only the page guard can notice."""
    numbers = (ctypes.c_float * LENGTH).from_address(address_of(tensor))
    for index in range(0, LENGTH, 1000):
        numbers[index] = -3.0


def write_one(tensor: Any) -> None:
    ctypes.c_float.from_address(address_of(tensor)).value = -3.0


@case
def writes_survive(folder: Path) -> None:
    """Into clean resident bytes, into spilled bytes, by views old and new."""
    import outsize

    def check(write: Callable[[Any], None], tensor: Any, wanted: np.ndarray) -> None:
        evict(tensor)
        fetch_clean(tensor)
        write(tensor)
        for _ in range(2):
            evict(tensor)
            right(tensor.clone().numpy(), wanted, write.__name__)
        evict(tensor)
        tensor.fill_(0)
        evict(tensor)
        write(tensor)  # a fault brings the page, then it is written
        evict(tensor)
        right(tensor.clone().numpy(), np.where(wanted == -3, wanted, 0), write.__name__)

    for write in (write_numpy, write_memoryview, write_pointer, write_one):
        tensor, wanted = spillable(7), pattern(7)
        wanted[: None if write is not write_one else 1 : 1000] = -3.0
        evict(tensor)
        fetch_clean(tensor)
        assert guarded(tensor), "it was to be clean: nobody has its address"
        check(write, tensor, wanted)
    dropped = outsize.stats().dropped_bytes
    clean = spillable(8)
    evict(clean)
    fetch_clean(clean)
    evict(clean)
    assert outsize.stats().dropped_bytes >= dropped + LENGTH * 4, "clean bytes are dropped"


@case
def views_written_for_long(folder: Path) -> None:
    """One view, kept through many evictions, written between ops that also write."""
    tensor, model = spillable(3), pattern(3)
    view, dice = tensor.numpy(), random.Random(3)
    for turn in range(25):
        for _ in range(50):
            at = dice.randrange(LENGTH)
            view[at] = model[at] = dice.random()
        if turn % 3:
            evict(tensor)
        if turn % 2:
            tensor.mul_(0.5)
            model *= np.float32(0.5)
        evict(tensor)
        right(view, model, f"turn {turn}")


@case
def writes_while_it_comes_and_goes(folder: Path) -> None:
    """A thread makes tensors leave and return while this one writes through views."""
    import torch

    import outsize

    tensors = [spillable(seed) for seed in range(4)]
    views, models = [t.numpy() for t in tensors], [pattern(seed) for seed in range(4)]
    done, errors = threading.Event(), []

    def commotion() -> None:
        try:
            while not done.is_set():
                filler = [torch.full((LENGTH,), 1.0) for _ in range(8)]
                for tensor in (*tensors, *filler):
                    tensor.sum()
        except BaseException as error:
            errors.append(error)

    before, dice = outsize.stats(), random.Random(5)
    thread = threading.Thread(target=commotion)
    thread.start()
    writes = 0
    while thread.is_alive() and outsize.stats().evictions < before.evictions + 60:
        for _ in range(20):
            which, at = dice.randrange(4), dice.randrange(LENGTH)
            views[which][at] = models[which][at] = dice.random()
            writes += 1
    done.set()
    thread.join()
    assert not errors, errors
    assert outsize.stats().raw_faults > before.raw_faults and writes >= 200
    evict(*tensors)
    for view, model in zip(views, models, strict=True):
        right(view, model, f"a write of {writes} was lost")


@case
def sockets(folder: Path) -> None:
    """Sent from spilled bytes and received into others, spilled or guarded, on a thread of no op."""
    import socket

    senders, receivers = ([spillable(seed) for seed in range(first, first + 4)] for first in (0, 4))
    ours, theirs = socket.socketpair()

    def receive() -> None:
        for tensor in receivers:
            view = memoryview(tensor.numpy()).cast("B")
            while len(view):
                view = view[theirs.recv_into(view) :]

    for turn in range(3):
        evict(*senders, *receivers)
        if turn == 1:  # valid copies below: a write must be noticed
            for tensor in receivers:
                tensor.sum()
        thread = threading.Thread(target=receive)
        thread.start()
        for tensor in senders:
            ours.sendall(memoryview(tensor.numpy()).cast("B"))
        thread.join()
        evict(*senders, *receivers)
        for seed, tensor in enumerate(receivers):
            right(tensor.numpy(), pattern(seed) + turn, f"received in turn {turn}")
        for tensor in senders:
            tensor += 1
    ours.close()
    theirs.close()


@case
def born_before(folder: Path) -> None:
    """Of tensors born before the budget the first bytes, up to a page, are nobody's to move."""
    for tensor in BEFORE:
        tensor.sum()  # taken over
    path = folder / "before.bin"
    evict(*BEFORE[:3])
    BEFORE[0].numpy().tofile(path)
    assert path.read_bytes() == pattern(0).tobytes()
    evict(*BEFORE[:3])
    with path.open("wb", buffering=0) as file:
        assert file.write(memoryview(BEFORE[1].numpy()).cast("B")) == 4 * LENGTH
    assert path.read_bytes() == pattern(1).tobytes()
    evict(*BEFORE[:3])
    with path.open("rb", buffering=0) as file:
        assert file.readinto(memoryview(BEFORE[2].numpy()).cast("B")) == 4 * LENGTH
    right(BEFORE[2].numpy(), pattern(1), "readinto")
    evict(*BEFORE[:3])
    descriptor = os.open(path, os.O_RDWR)
    parts = [memoryview(BEFORE[i].numpy()).cast("B") for i in (0, 2)]
    assert os.pwritev(descriptor, parts, 4096) == 8 * LENGTH
    evict(*BEFORE[:3])
    assert os.preadv(descriptor, parts[::-1], 4096) == 8 * LENGTH
    os.close(descriptor)
    right(BEFORE[2].numpy(), pattern(0), "preadv")
    right(BEFORE[0].numpy(), pattern(1), "preadv")
    evict(*BEFORE[:3])
    with path.open("rb") as file:
        file.seek(4096)
        right(np.fromfile(file, np.float32, LENGTH), pattern(0), "fromfile")


@case
def messages(folder: Path) -> None:
    """A message that could not be delivered is an error, and the next one is not taken for it."""
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tensor = spillable(0)
    evict(tensor)
    ours.send(b"only")
    try:
        count = theirs.recv_into(memoryview(tensor.numpy()).cast("B"))
        assert count == 4 and bytes(memoryview(tensor.numpy()).cast("B")[:4]) == b"only"
    except OSError as error:  # the kernel cannot wait on every path
        assert error.errno == errno.EFAULT
    evict(tensor)
    with contextlib.suppress(OSError):
        ours.send(memoryview(tensor.numpy()).cast("B")[:64])
        assert len(theirs.recv(100)) == 64


@case
def libraries_loaded_meanwhile(folder: Path) -> None:
    """Their calls are covered too, though the linker may just be at work on them."""
    import shutil

    import torch

    tensor = spillable(0)
    lib = next(iter(Path(torch.__file__).parent.glob("_C.*.so")))
    stop = threading.Event()

    def hand_out() -> None:
        while not stop.is_set():
            tensor.numpy()

    thread = threading.Thread(target=hand_out)
    thread.start()
    for number in range(40):
        copy = folder / f"{number}.so"
        shutil.copy(lib, copy)
        ctypes.CDLL(str(copy))
    stop.set()
    thread.join()
    evict(tensor)
    right(tensor.numpy(), pattern(0), "read")


@case
def files(folder: Path) -> None:
    """What hands bytes to the kernel, which cannot wait for them on every path."""
    import io

    import torch
    from safetensors.torch import load_file, save_file

    tensors = {str(seed): spillable(seed) for seed in range(8)}  # 32 MiB
    for name in ("0", "1"):
        evict(tensors[name])
        path = folder / f"{name}.bin"
        np.asarray(tensors[name]).tofile(path)
        assert path.read_bytes() == pattern(int(name)).tobytes()
    evict(*tensors.values())
    np.save(folder / "array.npy", tensors["2"].numpy())
    right(np.load(folder / "array.npy"), pattern(2), "np.save")
    with (folder / "0.bin").open("rb", buffering=0) as file:
        evict(tensors["3"])
        assert file.readinto(tensors["3"].numpy()) == 4 * LENGTH
        right(tensors["3"].numpy(), pattern(0), "readinto")
        evict(tensors["3"])
        right(tensors["3"].numpy(), pattern(0), "readinto, later")
        tensors["3"].copy_(torch.from_numpy(pattern(3)))
    evict(*tensors.values())
    save_file(tensors, folder / "all.safetensors")
    evict(*tensors.values())
    for name, tensor in load_file(folder / "all.safetensors").items():
        right(tensor.numpy(), pattern(int(name)), f"safetensors {name}")
    for zipped in (True, False):
        for target in (folder / "all.pt", io.BytesIO()):
            evict(*tensors.values())
            torch.save(tensors, target, _use_new_zipfile_serialization=zipped)
            if isinstance(target, io.BytesIO):
                target.seek(0)
            evict(*tensors.values())
            for name, tensor in torch.load(target).items():
                right(tensor.numpy(), pattern(int(name)), f"torch.load {name}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("case")
    parser.add_argument("folder")
    jail.add_options(parser)
    args = parser.parse_args()
    import fork_cases
    import torch

    if args.jail:
        jail.enter()
    # Becoming another user made /proc/self root's; an ordinary user's own program can read its own.
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    torch.set_num_threads(1)
    import outsize

    cases = CASES | fork_cases.CASES
    if args.case == "born_before":
        BEFORE.extend(spillable(seed) for seed in range(8))
    with outsize.budget(BUDGET, faults=args.faults, policy="ondemand"):
        cases[args.case](Path(args.folder))
        stats = outsize.stats()
    with open(args.output, "w") as file:
        json.dump(stats.as_dict(), file)


if __name__ == "__main__":
    sys.modules["raw_worker"] = sys.modules["__main__"]
    main()

"""`outsize trace`: a small trace, what is told of it, its exports, and what is told of a damaged one.

The bytes are those of docs/TRACE.md, so that a trace that was recorded once can be read for good.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

# The trace of TraceCodec.GoldenBytes (core/trace/trace_codec_test.cpp) in a file, not compressed, as version 1 of the
# format had it: without places in a graph.
TINY = bytes.fromhex(
    "894f5a54520d0a1a01000000488192b0"
    "00000000920000009200000002000000f42352aa64e739fcf6596c30c80f3baf"
    "00000041000e7b2274687265616473223a20327d66028020500202066c656e6774680200068f03056465707468010100"
    "0000000000e03f4202efcdab8967452301086174656e3a3a6d6d4dca0f01840763020300efcdab896745230102000145"
    "02ac024302330105440244024e02334d0801c40f016900014a00014b00016c00014702010f000251021202010201ac22"
    "0000"
)
HEADER = 16  # bytes before the first block


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.trace"
    path.write_bytes(TINY)
    return path


@pytest.fixture
def traces():
    from outsize.trace import load

    return load()


def test_info(tiny: Path, run_outsize):
    done = run_outsize("trace", "info", tiny, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["meta"] == {"threads": 2}
    counts = ("events", "ops", "sites", "steps", "samples", "births", "adoptions", "deaths")
    assert {name: said[name] for name in counts} == {
        "events": 18, "ops": 2, "sites": 1, "steps": 1, "samples": 1, "births": 2, "adoptions": 1, "deaths": 1}
    assert (said["born_bytes"], said["peak_bytes"], said["alive_bytes"]) == (4396, 4396, 4096)
    assert (said["peak_ns"], said["duration_ns"]) == (1002, 2003)
    assert said["waited_ns"] == {"operands": 0, "room": 900, "raw access": 0, "fresh pages": 0}
    assert said["longest"] == [{"op": "aten::mm", "ops": 2, "self_ns": 4}]
    assert said["file_bytes"] == len(TINY)
    plain = run_outsize("trace", "info", tiny)
    assert plain.returncode == 0 and "aten::mm" in plain.stdout and len(plain.stdout.splitlines()) < 16


def test_validate(tiny: Path, run_outsize):
    done = run_outsize("trace", "validate", tiny)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tiny}: all 18 events make sense.\n"
    assert json.loads(run_outsize("trace", "validate", tiny, "--json").stdout) == {
        "status": "ok", "events": 18, "found": 0, "problems": []}


def test_export_for_perfetto(tiny: Path, traces, tmp_path: Path):
    out = tmp_path / "tiny.json"
    traces.trace_export(str(tiny), "chrome", str(out))
    drawn = json.loads(out.read_text())
    events = drawn["traceEvents"]
    begins = [event for event in events if event["ph"] == "B"]
    assert [event["name"] for event in begins] == ["aten::mm", "aten::mm"]
    assert [event["cat"] for event in begins] == ["backward", "forward"]
    assert [event["args"]["storages"] for event in begins] == ["r0 w0", "w1"]
    assert [event["ts"] for event in begins] == [1.001, 1.003]
    assert sum(event["ph"] == "E" for event in events) == 2
    assert [event["args"]["bytes"] for event in events if event["ph"] == "C"] == [4096, 4396, 4096]
    waits = [event for event in events if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in waits] == [("wait: room", 0.1, 0.9)]
    assert json.loads(drawn["otherData"]["outsize"]) == {"threads": 2}


def test_export_as_a_memory_timeline(tiny: Path, traces, tmp_path: Path):
    out = tmp_path / "tiny.csv"
    traces.trace_export(str(tiny), "memory", str(out))
    with out.open() as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    assert rows == [("1", "4096", "4096", "0", ""), ("1002", "4396", "300", "1", "aten::mm"),
                    ("2001", "4096", "-300", "1", "aten::mm")]


def test_export_by_the_command(tiny: Path, run_outsize, tmp_path: Path):
    out = tmp_path / "out.csv"
    done = run_outsize("trace", "export", tiny, "--to", "memory", "-o", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(out.read_text().splitlines()) == 4
    itself = run_outsize("trace", "export", tiny, "--to", "memory", "-o", tiny)
    assert itself.returncode == 2 and "is the trace itself" in itself.stderr
    assert tiny.read_bytes() == TINY


@pytest.mark.parametrize("command", ["info", "validate", "export"])
@pytest.mark.parametrize("damage, said", [
    (TINY[:-1], "the trace is cut off: the file ends at byte"),
    (TINY[:HEADER], "the trace is cut off"),
    (TINY[:60] + bytes([TINY[60] ^ 1]) + TINY[61:],
     "the trace is damaged: the block's checksum does not fit [block 0, at byte 16"),
    (TINY[:20] + b"!" + TINY[21:], "the trace is damaged: the checksum before the block"),
    (bytes.fromhex("894f5a54520d0a1a04000000bbfac79e") + TINY[HEADER:],
     "the trace has version 4 of the format, and this outsize reads 3"),
    (b'{"INSTRUCTION": "ANNOTATE"}\n', "the file is no trace of outsize"),
    (b"", "the file is empty"),
    (None, "the trace cannot be read: No such file"),
], ids=["cut", "header alone", "flipped", "frame", "later", "other", "empty", "missing"])
def test_what_cannot_be_read_is_told_in_one_line(command: str, damage: bytes | None, said: str, tmp_path: Path,
                                                 run_outsize):
    path, out = tmp_path / "bad.trace", tmp_path / "out"
    if damage is not None:
        path.write_bytes(damage)
    more = ("--to", "chrome", "-o", out) if command == "export" else ()
    done = run_outsize("trace", command, path, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"outsize: {path}: ") and said in done.stderr
    assert not out.exists()


def test_every_truncation_and_every_flipped_byte(tmp_path: Path, traces):
    path = tmp_path / "bad.trace"
    for keep in range(len(TINY)):
        path.write_bytes(TINY[:keep])
        with pytest.raises(ValueError, match="cut off|is empty"):
            traces.trace_validate(str(path))
    for at in range(len(TINY)):
        path.write_bytes(TINY[:at] + bytes([TINY[at] ^ 0x40]) + TINY[at + 1:])
        with pytest.raises(ValueError, match="damaged|no trace of outsize"):
            traces.trace_validate(str(path))

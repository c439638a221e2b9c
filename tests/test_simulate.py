"""`outsize simulate`: DTR's own logs give DTR's own numbers, to the integer.

The answers in tests/support/simrd were made by DTR's public simulator, not by outsize. The logs they
belong to have no licence and are not in the repository: put `simrd_logs.zip` into
../shared/reference/dtr beside the checkout, or name its folder in OUTSIZE_SIMRD_LOGS.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOGS = Path(os.environ.get("OUTSIZE_SIMRD_LOGS") or ROOT.parent / "shared/reference/dtr")
ANSWERS = Path(__file__).parent / "support" / "simrd"
LOG_OF = {"ResNet-32 (56)": "resnet32", "Transformer (10)": "transformer", "TreeLSTM (D.6)": "treelstm",
          "LSTM (512)": "lstm"}
POLICY_OF = {"DTR": "dtr", "DTREqClass": "dtr-eqclass", "DTRLocal": "dtr-local", "LRU": "lru",
             "MSPS": "msps", "LargestStorage": "largest"}
STATUS_OF = {"ok": "ok", "OOM": "oom", "thrash(>2x)": "remat_exceeded"}


def rows(name: str) -> list[dict[str, str]]:
    with (ANSWERS / name).open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = LOGS / "simrd_logs.zip"
    if not archive.exists():
        pytest.skip(f"DTR's logs are not beside the checkout ({archive}); they have no licence to be in it")
    folder = tmp_path_factory.mktemp("simrd")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def sim():
    from outsize.simulate import load

    return load()


def test_there_are_answers_to_compare_with():
    assert len(rows("integer_answers.csv")) == 29
    assert len(rows("reference_models.csv")) == 89
    assert set(LOG_OF) == {row["model"] for row in rows("integer_answers.csv")}


@pytest.mark.parametrize("model", LOG_OF)
def test_the_integers_of_the_public_simulator(model: str, logs: Path, run_outsize):
    mine = [row for row in rows("integer_answers.csv") if row["model"] == model]
    assert len(mine) >= 6
    for row in mine:
        done = run_outsize("simulate", "--simrd", logs / f"{LOG_OF[model]}.log", "--policy",
                           POLICY_OF[row["heuristic"]], "--ratio", row["ratio"])
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        assert list(said) == ["status", "budget", "clock", "evaluations", "peak"]
        finished = row["status"] == "ok"
        assert said["status"] == row["status"], row
        assert said["budget"] == int(row["budget_bytes"])
        assert said["clock"] == (int(row["final_clock"]) if finished else None), row
        assert said["evaluations"] == (int(row["evals"]) if finished else None), row
        assert 0 < said["peak"] <= said["budget"]


def test_the_sweeps_of_the_public_simulator(logs: Path, sim):
    read = {model: sim.SimrdLog(str(logs / f"{LOG_OF[model]}.log")) for model in LOG_OF}
    compared = 0
    for row in rows("reference_models.csv"):
        log = read[row["model"]]
        if row["heuristic"] == "BASELINE":
            assert (log.peak, log.compute) == (int(row["max_memory_bytes"]), int(row["model_compute_ns"]))
            continue
        said = log.run(POLICY_OF[row["heuristic"]], float(row["ratio"]))
        compared += 1
        assert {
            "status": STATUS_OF[row["status"]],
            "budget": int(row["budget_bytes"]),
            "peak": int(row["max_memory_bytes"]),
            "compute": int(row["model_compute_ns"]),  # of a stopped run: how far it came
            "recompute": int(row["remat_compute_ns"]),
        }.items() <= said.items(), row
    assert compared == 87


SMALL = [
    {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"},
    *({"INSTRUCTION": kind, **fields} for name, time in (("a", 10), ("b", 100), ("c", 1)) for kind, fields in (
        ("CALL", {"NAME": "f", "ARGS": [], "RESULT": [name], "TIME": str(time)}),
        ("MEMORY", {"NAME": name, "MEMORY": "4"}),
        ("ALIAS", {"NAME": name, "ALIAS": "-1"}))),
    {"INSTRUCTION": "RELEASE", "NAME": "b"},
    {"INSTRUCTION": "RELEASE", "NAME": "c"},
]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three ops of four bytes that read nothing; a alone is wanted at the end."""
    path = tmp_path / "small.log"
    path.write_text("".join(json.dumps(line) + "\n" for line in SMALL))
    return path


def test_a_small_log_by_hand(small: Path, run_outsize):
    def simulate(*options: str) -> dict:
        done = run_outsize("simulate", "--simrd", small, *options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # All three are held at once. With room for two c pushes out one of the two others: by compute
    # and staleness a (10 ns, 101 ns ago), which is wanted back at the end; by size the last, b.
    assert simulate("--ratio", "1") == {"status": "ok", "budget": 12, "clock": 112, "evaluations": 0, "peak": 12}
    assert simulate("--policy", "dtr", "--ratio", "0.7") == {
        "status": "ok", "budget": 8, "clock": 122, "evaluations": 2, "peak": 8}
    assert simulate("--policy", "largest", "--ratio", "0.7") == {
        "status": "ok", "budget": 8, "clock": 112, "evaluations": 2, "peak": 8}
    assert simulate("--ratio", "0.3") == {
        "status": "oom", "budget": 3, "clock": None, "evaluations": None, "peak": 0}


def test_torch_is_not_needed(small: Path, tmp_path: Path):
    program = ("import sys; sys.modules['torch'] = None\nfrom outsize.cli import main\n"
               f"main(['simulate', '--simrd', {str(small)!r}, '--ratio', '1'])")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "ok"


@pytest.mark.parametrize("spoil, said", [
    (lambda text: text[:-20], "line 12 of LOG cannot be read: it is no JSON: it ends too early, at column 21."),
    (lambda text: text[: text.index('{"INSTRUCTION": "ALIAS"')],
     "line 3 of LOG cannot be read: the log ends in the middle of an op."),
    (lambda text: text.replace("START", "BEGIN", 1).replace('"NAME": "b", "MEM', '"NAME": "d", "MEM'),
     "line 6 of LOG cannot be read: the MEMORY of 'b' is expected."),
    (lambda text: "", "line 1 of LOG cannot be read: the log holds no op."),
    (lambda text: "PK\x03\x04\x00", "line 1 of LOG cannot be read: it is no JSON: it does not begin with an object,"
                                    " at column 1."),
])
def test_a_log_that_cannot_be_read_is_told_in_one_sentence(spoil, said: str, small: Path, run_outsize):
    small.write_text(spoil(small.read_text()))
    done = run_outsize("simulate", "--simrd", small, "--policy", "dtr", "--ratio", "0.5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"outsize: {said.replace('LOG', str(small))}\n"


@pytest.mark.parametrize("options, said", [
    (["--policy", "belady"], "There is no policy 'belady' in simulation; there are dtr, dtr-eqclass, dtr-local, lru"),
    (["--ratio", "0"], "argument --ratio: '0' is not a number above 0 and at most 8."),
    (["--ratio", "nan"], "argument --ratio: 'nan' is not a number above 0 and at most 8."),
    (["--simrd", "nowhere.log"], "nowhere.log cannot be read: No such file or directory."),
    (["--simrd", "."], ". cannot be read: Is a directory."),
])
def test_a_slip_is_told_in_one_sentence(options: list[str], said: str, small: Path, run_outsize):
    done = run_outsize("simulate", "--simrd", small, "--ratio", "0.5", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"outsize: {said}") and done.stderr.count("\n") == 1


def test_every_policy_runs(small: Path, sim):
    log = sim.SimrdLog(str(small))
    assert (log.peak, log.compute, log.ops) == (12, 111, 3)
    names = sim.simrd_policies().split(", ")
    assert len(names) == 18
    for name in names:
        assert log.run(name, 0.7)["status"] == "ok", name


def test_ctrl_c_ends_a_long_run(tmp_path: Path):
    # 60 000 bytes fill the budget, and then each of 200 000 ops looks at all of them.
    log = tmp_path / "long.log"
    with log.open("w") as file:
        for op in range(260_000):
            name = f"x{op}" if op < 60_000 else f"y{op}"
            for fields in ({"INSTRUCTION": "CALL", "NAME": "f", "ARGS": [], "RESULT": [name], "TIME": 1},
                           {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": 1},
                           {"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": -1}):
                file.write(json.dumps(fields) + "\n")
    with subprocess.Popen([sys.executable, "-m", "outsize", "simulate", "--simrd", str(log), "--policy", "lru",
                           "--ratio", "0.23"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(3)
        assert process.poll() is None, "the run is too short for this test"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "outsize simulate: interrupted.\n")

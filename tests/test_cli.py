"""`outsize run` must be invisible to the script: compared here with plain Python, byte for byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

SHOW = """\
import json, sys
main = sys.modules["__main__"]
names = sorted(set(vars(main)) - {"json", "sys", "main", "names", "spec"})
spec = __spec__ and [__spec__.name, __spec__.origin, __spec__.parent]
print(json.dumps([sys.argv, sys.path, __name__, repr(main.__dict__.get("__file__")), names, spec,
                  repr(__package__), repr(main.__dict__.get("__cached__")),
                  type(__loader__).__name__, main.__dict__ is globals(), __doc__]))
"""

# Scripts whose output, error output and exit code must be those of plain Python.
SCRIPTS = {
    "ends well": "print('done')",
    "sees itself": SHOW,
    "docstring": '"""What I am."""\n' + SHOW,
    "exits 3": "import sys; sys.exit(3)",
    "exits with a text": "import sys; sys.exit('no data')",
    "exits with None": "raise SystemExit",
    "fails": "def f():\n    raise ValueError('broken')\nf()\n",
    "fails in a chain": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
    "    raise KeyError(7) from e\n",
    "fails with a note": "e = OSError(2, 'x')\ne.add_note('a note')\nraise e\n",
    "fails in a group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "is not Python": "print('a'\n",
    "own excepthook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__, "
    "a[2].tb_frame.f_code.co_name)\n1 / 0\n",
    "atexit": "import atexit; atexit.register(print, 'last words'); print('first')",
    "thread fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\n"
    "t.start(); t.join()\n",
    "thread outlives main": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\n",
    "future annotations stay off": "def f(x: 1 + 1): pass\nprint(f.__annotations__)\n",
    "pickles its classes": "import pickle\nclass A: pass\n"
    "print(type(pickle.loads(pickle.dumps(A()))))\n",
    "reads stdin": "print(input())",
    "forks": "import os\npid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1])\n"
    "else: os._exit(4)\n",
    "spawns": "import multiprocessing as mp\ndef f(x): return x + 1\nif __name__ == '__main__':\n"
    "    with mp.get_context('spawn').Pool(1) as p: print(p.map(f, [1, 2]))\n",
}


def both(
    arguments: list[str], cwd: Path, env: dict[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """The same command line under plain Python and under `outsize run --quiet`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OUTSIZE")} | (env or {})

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words, *arguments],
            cwd=cwd, env=clean, text=True, capture_output=True, input="typed\n", timeout=120,
        )  # fmt: skip

    return run(), run("-m", "outsize", "run", "--quiet")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_cannot_tell(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPTS[name])
    plain, ours = both(["sub/script.py", "--budget", "1", "-m", "x y"], tmp_path)
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode


def test_a_linked_script_imports_from_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "helper.py").write_text("VALUE = 5")
    (tmp_path / "real" / "script.py").write_text("import helper; print(helper.VALUE)\n" + SHOW)
    (tmp_path / "link.py").symlink_to("real/script.py")
    plain, ours = both(["link.py"], tmp_path)
    assert (ours.stdout, ours.returncode) == (plain.stdout, 0)


@pytest.mark.parametrize("body", [SHOW, "1 / 0", "import sys; sys.exit(5)"])
def test_a_module_cannot_tell(body: str, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(body)
    (package / "tool.py").write_text(body)
    for module in ("pack", "pack.tool"):
        plain, ours = both(["-m", module, "a", "--json", "-m"], tmp_path)
        assert ours.stdout == plain.stdout
        assert ours.stderr == plain.stderr
        assert ours.returncode == plain.returncode


@pytest.mark.parametrize("body", [SHOW, "def f():\n    1 / 0\nf()", "import sys; sys.exit(5)", "print('a'", ""])
def test_code_cannot_tell(body: str, tmp_path: Path) -> None:
    plain, ours = both(["-c", body, "a", "--json", "-m"], tmp_path)
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    plain, ours = both(["-m", "no_such_module_here"], tmp_path)
    assert (ours.stderr, ours.returncode) == (plain.stderr, plain.returncode)


def test_folders_archives_and_compiled_files_run(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(SHOW)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    subprocess.run(
        [sys.executable, "-c", "import py_compile; py_compile.compile('app/__main__.py', 'a.pyc')"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    for target in ("app", "app.zip", "a.pyc"):
        plain, ours = both([target, "x"], tmp_path)
        assert plain.returncode == 0
        assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr), target


def test_a_file_that_is_not_there(run_outsize) -> None:
    done = run_outsize("run", "missing.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr and "missing.py" in done.stderr
    assert len(done.stderr.splitlines()) == 1, "nor that torch was never imported"
    assert "Traceback" not in done.stderr


def test_ctrl_c_dies_like_python(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    codes, errors = [], []
    for words in ([], ["-m", "outsize", "run", "--quiet"]):
        process = subprocess.Popen(
            [sys.executable, *words, "script.py"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # A test run in a shell's background ignores it, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        assert process.stdout.readline() == "up\n"
        time.sleep(0.3)  # now it sleeps
        process.send_signal(signal.SIGINT)
        errors.append(process.communicate(timeout=30)[1])
        codes.append(process.returncode)
    assert codes == [-signal.SIGINT, -signal.SIGINT]  # 130 in every shell
    assert errors[0] == errors[1]


def test_safe_path_is_respected(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print(sys.path, sys.argv)")
    plain, ours = both(["script.py"], tmp_path, {"PYTHONSAFEPATH": "1"})
    assert ours.stdout == plain.stdout


def test_a_script_without_torch_does_not_pay_for_it(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print('torch' in sys.modules)")
    done = run_outsize("run", "--json", "end.json", "script.py")
    assert done.stdout == "False\n"
    assert "never imported torch" in done.stderr
    report = json.loads((tmp_path / "end.json").read_text())
    assert report["stats"]["budget"] == 0 and report["run"] == {"exit_code": 0, "exception": None}


@pytest.mark.parametrize(("last", "code", "exception"), [
    ("sys.exit(3)", 3, None),
    ("sys.exit('no data')", 1, None),
    ("raise ValueError('no data')", 1, "ValueError: no data"),
    ("torch.ones(9 << 20)", 1, "BudgetError: aten::ones needs"),
    ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
])
def test_the_json_says_how_the_program_ended(
    last: str, code: int, exception: str | None, run_outsize, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(f"import sys, torch\n{last}\n")
    done = run_outsize("run", "--quiet", "--budget", "24MiB", "--json", "end.json", "script.py")
    report = json.loads((tmp_path / "end.json").read_text())
    assert report["run"]["exit_code"] == code
    assert done.returncode == (-signal.SIGINT if code == 130 else code)
    assert (report["run"]["exception"] or "").startswith(exception or "")
    assert (report["run"]["exception"] is None) == (exception is None)
    assert report["stats"]["refused_ops"] == int("torch" in last)
    assert report["stats"]["min_budget_op"] == ("aten::ones" if "torch" in last else "")


def test_outsize_0_runs_plainly(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys, torch, outsize\nprint(outsize.enabled(), 'outsize._core' in sys.modules)\n"
    )
    done = run_outsize("run", "--budget", "64MiB", "script.py", env={"OUTSIZE": "0"})
    assert (done.stdout, done.stderr, done.returncode) == ("False False\n", "", 0)


TRAIN = """\
import os, torch
torch.manual_seed(0)
model = torch.nn.Linear(1024, 1024)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(64, 1024)).square().sum().backward()
    optimizer.step()
print(model.weight.detach().double().sum().item(), os.environ.get("SEEN", ""))
"""


def test_a_run_ends_with_the_table_and_the_json(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    plain = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    done = run_outsize("run", "--budget", "64MiB", "--json", "end.json", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout
    for words in ("peak in RAM", "64.0 MiB", "whole process", "3 steps", "smallest budget", "prediction hits"):
        assert words in done.stderr
    report = json.loads((tmp_path / "end.json").read_text())
    assert report["outsize"]["budget"] == "64MiB"
    assert report["stats"]["steps"] == 3
    assert 0 < report["stats"]["resident_peak"] <= report["stats"]["budget"] == 64 << 20
    assert report["stats"]["process_peak"] > report["stats"]["resident_peak"]
    assert report["machine"]["torch"] and report["machine"]["cores"] >= 1


DEEP = """\
import outsize, torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(64, 1024)).square().sum().backward()
    optimizer.step()
"""


def test_a_budget_that_the_program_ends_is_told_until_then(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        DEEP + "outsize.disable()\nwith outsize.budget('1GiB'): model(torch.ones(64, 1024))\n"
    )
    done = run_outsize("run", "--budget", "24MiB", "--json", "end.json", "train.py")
    assert done.returncode == 0, done.stderr
    ours, its_own = done.stderr.split("outsize, the program's own last budget:")
    assert "3 steps" in ours and "by outsize.disable()" in ours and "Everything fitted" not in ours
    assert "of a budget of 1.00 GiB" in its_own and "Everything fitted" in its_own
    stats = json.loads((tmp_path / "end.json").read_text())["stats"]
    assert stats["budget"] == 24 << 20 and stats["read_bytes"] > 0


def test_without_a_steps_end_the_table_asks_for_it(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DEEP.replace("optimizer.step()", "pass"))
    done = run_outsize("run", "--budget", "24MiB", "train.py")
    assert "0 steps" in done.stderr and "call outsize.step() at the end of each iteration" in done.stderr


def test_quiet_is_quiet(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = run_outsize("run", "--quiet", "--budget", "64MiB", "train.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failing_script_still_gets_its_table(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "raise ValueError('after training')\n")
    done = run_outsize("run", "--budget", "64MiB", "train.py")
    assert done.returncode == 1
    assert done.stderr.index("ValueError: after training") < done.stderr.index("peak in RAM")
    assert f"{os.sep}outsize{os.sep}" not in done.stderr.split("peak in RAM")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "did you mean 'run'?"),
        (["run", "--budgt", "2GiB", "x.py"], "did you mean '--budget'?"),
        (["--budget", "2GiB", "train.py"], "did you mean `outsize run --budget ...`?"),
        (["train.py"], "did you mean `outsize run train.py`?"),
        (["run"], "what should run?"),
        (["run", "-m"], "-m lacks the name of a module"),
        (["run", "--budget", "2GiB", "-c"], "-c lacks the code to run"),
        (["run", "--budget", "2GiB", "--steps", "1"], "options of the script stand after its name"),
        (["run", "--budget", "-5MiB", "x.py"], "'-5MiB' is not a budget"),
        (["run", "--io-threads", "-1", "x.py"], "'-1' is not a number above zero"),
        (["run", "--budget", "0%", "x.py"], "write a percentage above 0%"),
        (["run", "--budget", "2", "x.py"], "did you mean 2GiB?"),
        (["run", "--budget", "lots", "x.py"], "'lots' is not a budget"),
        (["run", "--budget", "120%", "x.py"], "'120%' is not a share"),
        (["run", "--spill-limit", "big", "x.py"], "'big' is not a size"),
        (["run", "--disk-write-limit", "2TB", "x.py"], "'2TB' is not a pace"),
        (["run", "--disk-write-limit", "2TB/moon", "x.py"], "'2TB/moon' is not a pace"),
        (["run", "--disk-write-limit", "1B/day", "x.py"], "less than a byte a second"),
        (["run", "--budget"], "expected one argument"),
        (["run", "--wat", "x.py"], "--wat"),
        (["run", "--faults", "magic", "x.py"], "magic"),
        (["bench", "no_such_example"], "neither an example (early_exit, "),
        (["bench", "gpt_bytes", "--budgets", "40%,foo"], "'foo' is not a size"),
    ],
)
def test_mistakes_get_one_clear_line(run_outsize, arguments: list[str], said: str) -> None:
    done = run_outsize(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "crystal-ball"], "crystal-ball"),
        (["--policy", "deepum:rows=0"], "'rows=0' is no setting of policy deepum [policy] Known: "),
        (["--policy", "weights:solver=best"], "Known: solver=single, greedy or greedy-star, moves=weights or all."),
        (["--io-threads", "5000"], "io_threads=5000 is not from 1 to 1024"),
        (["--spill-dir", "no/such/folder"], "no/such/folder"),
    ],
)
def test_what_cannot_work_is_said_before_training(
    run_outsize, tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "script.py").write_text("import torch; print('trained')")
    done = run_outsize("run", "--budget", "64MiB", *options, "script.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


OWN_OPTIONS = """\
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--budget")
print("budget", parser.parse_args().budget)
"""
BEHIND = ": what stands behind the script's name is the script's; options of outsize stand before the script."


@pytest.mark.parametrize(("words", "code", "told"), [
    (["script.py", "--budget", "40%"], 0, "--budget"),  # else the training would run under `auto`
    (["-m", "script", "--budget=40%"], 0, "--budget"),
    (["--budget", "64MiB", "script.py", "--budget", "40%"], 0, ""),  # surely the script's own
    (["--quiet", "script.py", "--budget", "40%"], 0, ""),
    (["--budget", "64MiB", "script.py", "--budget", "40%", "--policy", "x"], 2, "--budget, --policy"),
    (["--quiet", "script.py", "--spill-dir=x"], 2, "--spill-dir"),
    (["script.py", "--budgets", "40%"], 2, ""),
])  # fmt: skip
def test_an_option_behind_the_scripts_name_is_the_scripts_and_told_where_it_may_be_ours(
    run_outsize, tmp_path: Path, words: list[str], code: int, told: str
) -> None:
    (tmp_path / "script.py").write_text(OWN_OPTIONS)
    done = run_outsize("run", *words)
    assert done.returncode == code, done.stderr
    assert ("budget 40%" in done.stdout) == (code == 0)
    hints = [line for line in done.stderr.splitlines() if BEHIND in line]
    assert hints == ([f"outsize: {told}{BEHIND}"] if told else [])


def test_help_comes_at_once() -> None:
    """Without torch, which takes seconds, and without what draws tables."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "outsize", "--help"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "outsize run" in done.stdout
    imported = {line.split("|")[2].strip() for line in done.stderr.splitlines() if line.count("|") == 2}
    assert "outsize.cli" in imported
    assert not imported & {"torch", "numpy", "rich", "plotly"}


@pytest.mark.parametrize("command", ["run", "demo", "bench", "doctor"])
def test_every_command_explains_itself(run_outsize, command: str) -> None:
    done = run_outsize(command, "--help")
    assert done.returncode == 0
    assert f"outsize {command}" in done.stdout


def test_version(run_outsize) -> None:
    assert run_outsize("--version").stdout.startswith("outsize ")


def test_doctor_says_what_the_machine_offers(run_outsize, tmp_path: Path) -> None:
    done = run_outsize("doctor", "--json", "--sample", "8MiB", "--spill-dir", "/var/tmp")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["disk"]["read"] > 0 and found["disk"]["mixed_write"] > 0
    assert found["memory"]["total"] > found["memory"]["available"] > 0
    assert isinstance(found["faults"]["userfaultfd"], bool)
    assert 0 <= found["moves"]["page_ns"] < 100_000
    assert (found["moves"]["page_ns"] > 0) == (found["faults"]["userfaultfd"] and found["faults"]["write_protect"])
    assert found["moves"]["command_ns"] > 0 and found["moves"]["transfer_ns"] >= 0
    assert 0 <= found["moves"]["held_up_mib_ns"] < 1e9
    assert found["moves"]["transfer_ns"] + found["moves"]["held_up_mib_ns"] > 0
    if found["moves"]["page_ns"] > 0:
        assert found["moves"]["warm_huge_mib_ns"] > 0 and found["moves"]["cold_bytes"] > 0
    spoken = run_outsize("doctor", "--sample", "8MiB", "--spill-dir", "/var/tmp").stdout
    for word in ("memory", "disk alone", "disk mixed", "one transfer", "page faults", "processor time", "held up", "torch"):
        assert word in spoken


def test_doctor_refuses_a_spill_directory_that_is_ram(run_outsize) -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("this machine has no /dev/shm")
    done = run_outsize("doctor", "--sample", "8MiB", "--spill-dir", "/dev/shm")
    assert done.returncode == 1
    assert "NOT USABLE" in done.stdout and "tmpfs" in done.stdout


def test_a_slip_is_told_before_the_work(run_outsize, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none" / "out.json")
    for words in (["bench", "gpt_bytes", "--budgets", "40%,foo"],
                  ["bench", "gpt_bytes", "--json", nowhere], ["demo", "--json", nowhere],
                  ["run", "--json", nowhere, "script.py"]):
        done = run_outsize(*words, timeout=30)
        assert done.returncode == 2
        assert "foo" in done.stderr or "cannot be written" in done.stderr


def test_turned_off_there_is_no_report(run_outsize, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    done = run_outsize("run", "--json", "end.json", "script.py", env={"OUTSIZE": "0"})
    assert done.returncode == 0 and done.stdout == "ran\n"
    assert "OUTSIZE=0" in done.stderr and not (tmp_path / "end.json").exists()

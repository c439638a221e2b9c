"""Runs an example plain and then once for each policy and budget, all in this process, with a decision log each.

    python logged_runs.py FOLDER POLICY,... BUDGET,... EXAMPLE.py [ARGUMENTS]

Prints a JSON line a run: the log (null: plain), and the losses and the digest that the example printed.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
from pathlib import Path


def example(arguments: list[str]) -> dict:
    sys.argv = arguments
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(arguments[0], run_name="__main__")
    last = json.loads(printed.getvalue().splitlines()[-1])
    return {"losses": last["losses"], "digest": last["weights_sha256"]}


def main() -> None:
    folder, policies, budgets, *arguments = sys.argv[1:]
    sys.path.insert(0, str(Path(arguments[0]).parent))
    print(json.dumps({"log": None} | example(arguments)), flush=True)
    import outsize

    for policy in policies.split(","):
        for budget in budgets.split(","):
            log = str(Path(folder) / f"{policy}-{budget}.log")
            outsize.enable(budget, policy=policy, decision_log=log)
            said = example(arguments)
            outsize.disable()
            print(json.dumps({"log": log} | said), flush=True)


if __name__ == "__main__":
    main()

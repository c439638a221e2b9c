"""A headless Chromium that a test talks to through pipes, by the DevTools protocol. It resolves no name and so
reaches no network; what it asks for nevertheless is told."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE = 120.0  # seconds


def found() -> str | None:
    """A browser's path: OUTSIZE_TEST_BROWSER, or the first that is installed."""
    chosen = os.environ.get("OUTSIZE_TEST_BROWSER")
    return chosen or next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. Errors of the console and addresses that were asked for gather in `errors` and `asked`."""

    def __init__(self, to: Any, answers: Any) -> None:
        self._to, self._answers = to, answers
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._answers], [], [], PATIENCE)[0], "the browser does not answer"
            more = os.read(self._answers, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        request: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        while (message := self._message()).get("id") != self._last:
            pass
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def open(self, path: Path) -> None:
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.value("document.readyState") != "complete":
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.05)

    def value(self, script: str) -> Any:
        """What an expression is worth on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def middle(self, selector: str) -> tuple[float, float]:
        """Of an element, scrolled to where it can be seen."""
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return x, y

    def click(self, selector: str) -> None:
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


@contextmanager
def opened() -> Iterator[Page]:
    browser = found()
    assert browser is not None
    requests, to = os.pipe()
    answers, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="outsize-test-", ignore_cleanup_errors=True) as profile:
        # It listens on 3 and answers on 4.
        plumbing = f"exec 3<&{requests} 4>&{from_browser}; exec \"$@\""
        words = [browser, "--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-gpu",
                 "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1200,900",
                 "--disable-background-networking", "--no-first-run", "about:blank"]  # fmt: skip
        if os.geteuid() == 0:  # its sandbox refuses to work for root
            words.insert(1, "--no-sandbox")
        running = subprocess.Popen(["bash", "-c", plumbing, "browser", *words], pass_fds=(requests, from_browser),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)  # fmt: skip
        os.close(requests)
        os.close(from_browser)
        try:
            yield Page(to, answers)
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # it has children, which write into the profile
            running.wait(PATIENCE)
            os.close(to)
            os.close(answers)

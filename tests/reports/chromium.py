"""Headless Chromium for tests of pages, driven through chromedriver with the standard library alone.

Needs Debian's packages chromium and chromium-driver; `missing` says what is not there.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
missing = "" if BROWSER and DRIVER else "needs chromium and chromedriver (Debian: apt-get install chromium-driver)"

TAB, ENTER = "\ue004", "\ue007"


class Browser:
    """One window; `run` is JavaScript whose ``return`` is given back."""

    def __init__(self, address: str, folder: Path) -> None:
        options = {
            "binary": BROWSER,
            "args": [
                *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--disable-background-networking", "--disable-extensions", f"--user-data-dir={folder}"),
            ],
        }
        asked = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self._address = address
        session = self._post("/session", {"capabilities": {"alwaysMatch": asked}})["sessionId"]
        self._address += f"/session/{session}"

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Opens a file at a width of the window, in the light or the dark scheme; drops earlier messages."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setDeviceMetricsOverride", **size)
        self._devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.messages()
        self._post("/url", {"url": page.resolve().as_uri()})

    def run(self, script: str) -> Any:
        return self._post("/execute/sync", {"script": script, "args": []})

    def press(self, *keys: str) -> None:
        """Presses and releases keys, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def messages(self) -> list[str]:
        """What the console shows since the last call, refusals of the content security policy included."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._get("/screenshot")))

    def close(self) -> None:
        self._request("", None, "DELETE")

    def _devtools(self, command: str, **parameters: Any) -> None:
        self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _post(self, path: str, body: Any) -> Any:
        return self._request(path, body, "POST")

    def _get(self, path: str) -> Any:
        return self._request(path, None, "GET")

    def _request(self, path: str, body: Any, method: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile lies in `folder`; it ends with the block."""
    with subprocess.Popen(
        [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        try:
            assert driver.stdout is not None
            found = next(filter(None, (re.search(r"on port (\d+)\.", line) for line in driver.stdout)))
            opened = Browser(f"http://127.0.0.1:{found[1]}", folder)
            try:
                yield opened
            finally:
                opened.close()
        finally:
            driver.terminate()

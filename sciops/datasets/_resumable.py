"""A downloader for pooch that goes on where a broken connection left it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20
_TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two blocks


class ResumableDownload:
    """Called by pooch as (url, output_file, pooch); what has come so far waits in `partial` when the connection breaks.

    partial : where the bytes gather; ``<partial>.json`` beside it holds the address and the server's mark of the
        version (ETag or date), and the next call asks for the rest of exactly that version. A server that cannot do
        that sends the whole file again
    progress : show a bar

    Raises OSError when the server refuses, breaks off, or sends fewer bytes than it announced.
    """

    def __init__(self, partial: Path, *, progress: bool = True) -> None:
        self.partial, self.progress = partial, progress
        self.notes = partial.with_name(partial.name + ".json")

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        import requests

        done, version = self._so_far(url)
        headers = {"Accept-Encoding": "identity"}
        if done and version:
            headers |= {"Range": f"bytes={done}-", "If-Range": version}
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                response.raise_for_status()
                if response.status_code != 206:
                    done = 0
                expected = int(response.headers.get("content-length", 0)) + done
                self._note(url, response.headers.get("ETag") or response.headers.get("Last-Modified"))
                self._receive(response, done, expected)
        except requests.exceptions.RequestException as error:
            raise OSError(f"{url}: {_reason(error)}") from None
        size = self.partial.stat().st_size
        if expected and size != expected:
            raise OSError(f"{url}: the connection broke after {size} of {expected} bytes")
        os.replace(self.partial, output_file)
        self.notes.unlink(missing_ok=True)

    def forget(self) -> None:
        """Removes what has come so far."""
        self.partial.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def _so_far(self, url: str) -> tuple[int, str | None]:
        try:
            noted = json.loads(self.notes.read_text())
            if noted["url"] == url:
                return self.partial.stat().st_size, noted["version"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.forget()
        return 0, None

    def _note(self, url: str, version: str | None) -> None:
        # a weak ETag names no exact bytes, and asking by it would be refused
        strong = None if version is None or version.startswith("W/") else version
        self.notes.write_text(json.dumps({"url": url, "version": strong}))

    def _receive(self, response: Any, done: int, expected: int) -> None:
        from tqdm.auto import tqdm

        with (
            open(self.partial, "r+b" if done else "wb") as file,
            tqdm(
                total=expected or None,
                initial=done,
                unit="B",
                unit_scale=True,
                desc=self.partial.name.removesuffix(".partial"),
                disable=None if self.progress else True,
            ) as bar,
        ):
            file.seek(done)
            for block in response.iter_content(_BLOCK):
                file.write(block)
                bar.update(len(block))
            file.truncate()


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answers {response.status_code} {response.reason}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"

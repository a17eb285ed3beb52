"""A downloader for pooch that goes on where a broken connection left it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from sciops._untrusted import parse_json

_BLOCK = 1 << 20
_TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two blocks
_PAUSE = 2.0  # seconds before a connection that broke is made anew
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")  # RFC 9110, section 14.4


class ResumableDownload:
    """Called by pooch as (url, output_file, pooch); what has come so far waits in `partial` when the connection breaks.

    partial : where the bytes gather; ``<partial>.json`` beside it holds the address, the server's mark of the version
        (ETag or date) and the length, and the next call asks for the rest. A server that cannot send the rest sends
        the whole file again. Nothing that has come is given up before a server has begun to send the file
    name : of the file, for the bar and for errors
    checked : whether a hash will be compared afterwards. Without one the rest is asked for from the same address and
        version alone; with one, from any address of the same bytes
    resumed : after a call, whether bytes of several connections were put together

    A connection that breaks is made anew as long as each one brings a megabyte. Raises OSError when the server refuses,
    breaks off, sends nothing or a web page, or the disk has no room for the rest.
    """

    def __init__(self, partial: Path, name: str, *, checked: bool, progress: bool = True) -> None:
        self.partial, self.name, self.checked, self.progress = partial, name, checked, progress
        self.notes = partial.with_name(partial.name + ".json")
        self.resumed = False

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        best, self.resumed = self.size(), False
        while True:
            try:
                self._receive_rest(url)
                break
            except ConnectionError:
                if self.size() < best + _BLOCK:
                    raise
            best = self.size()
            time.sleep(_PAUSE)
        os.remove(output_file)
        try:
            os.link(self.partial, output_file)  # a kill while pooch hashes it costs nothing then
        except OSError:  # a file system without links
            os.replace(self.partial, output_file)

    def size(self) -> int:
        """Bytes that have come so far."""
        return self.partial.stat().st_size if self.partial.exists() else 0

    def forget(self) -> None:
        """Removes what has come so far."""
        self.partial.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def _receive_rest(self, url: str) -> None:
        """Raises ConnectionError when the connection breaks or answers nothing, another OSError when it is no use."""
        import requests

        noted, done = self._noted(), self.size()
        same = noted["url"] == url
        headers = {"Accept-Encoding": "identity"}
        if done and (self.checked or (same and noted["version"])):
            self.resumed = True
            if done == noted["size"]:
                return
            headers["Range"] = f"bytes={done}-"
            if same and noted["version"]:
                headers["If-Range"] = noted["version"]
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                if response.status_code == 416 and _range(response)[1] == done:
                    return  # all of it has come
                if "Range" in headers and not _is_the_rest(response, done, noted["size"]):
                    self.forget()
                    return self._receive_rest(url)
                response.raise_for_status()
                self._check_kind(url, response)
                if response.status_code != 206:
                    done, self.resumed = 0, False
                size = _size(response, done)
                self._check_room(size)
                if not done:  # before the notes: they must never speak of other bytes
                    self.partial.unlink(missing_ok=True)
                self.notes.write_text(json.dumps({"url": url, "version": _version(response), "size": size}))
                self._write(response, done, size)
        except requests.exceptions.HTTPError as error:
            answer = error.response
            raise OSError(f"{url}: the server answers {answer.status_code} {answer.reason}") from None
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
            raise ConnectionError(f"{url}: {_reason(error)}") from None
        except requests.exceptions.ChunkedEncodingError as error:
            raise ConnectionError(f"{url}: the connection broke after {self.size()} bytes ({_reason(error)})") from None
        except requests.exceptions.RequestException as error:
            raise OSError(f"{url}: {_reason(error)}") from None
        if size is not None and self.size() != size:
            raise ConnectionError(f"{url}: the connection broke after {self.size()} of {size} bytes")
        if not self.size():
            raise OSError(f"{url} sends no bytes")

    def _noted(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            noted = parse_json(self.notes.read_text())
            return {key: noted[key] for key in ("url", "version", "size")}
        self.forget()  # bytes of an unknown address
        return {"url": None, "version": None, "size": None}

    def _check_kind(self, url: str, response: Any) -> None:
        kind = response.headers.get("Content-Type", "")
        if kind.lower().startswith("text/html") and not self.name.lower().endswith((".html", ".htm")):
            raise OSError(
                f"{url} sends a web page where the file {self.name} should be: a proxy, a login or a limit of the "
                "server stands between; open the address in a browser to see what it says"
            )

    def _check_room(self, size: int | None) -> None:
        room = shutil.disk_usage(self.partial.parent).free + self.size()
        if size is not None and size > room:
            raise OSError(
                errno.ENOSPC,
                f"no space for {self.name} of {size} bytes, there are {room} for it in {self.partial.parent.parent}; "
                "free some, or name another folder",
            )

    def _write(self, response: Any, done: int, size: int | None) -> None:
        from tqdm.auto import tqdm

        with (
            open(self.partial, "r+b" if done else "wb") as file,
            tqdm(
                total=size,
                initial=done,
                unit="B",
                unit_scale=True,
                desc=self.name,
                disable=None if self.progress else True,
            ) as bar,
        ):
            file.seek(done)
            file.truncate()
            for block in response.iter_content(_BLOCK):
                file.write(block)
                bar.update(len(block))


def _is_the_rest(response: Any, done: int, size: int | None) -> bool:
    """Whether an answer to a question for the rest can be used; one that sends the whole file or refuses can, too."""
    if response.status_code == 416:  # more has come than that file has
        return False
    if response.status_code != 206:
        return True
    start, total = _range(response)
    return start in (done, None) and (None in (total, size) or total == size) and not _packed(response)


def _size(response: Any, done: int) -> int | None:
    """The length of the whole file, where the answer tells."""
    length = response.headers.get("Content-Length", "")
    if _packed(response) or not length.isdecimal():
        return _range(response)[1]
    return done + int(length)


def _packed(response: Any) -> bool:
    """Whether the bytes were packed on the way: then lengths are those of other bytes."""
    return response.headers.get("Content-Encoding", "identity").lower() != "identity"


def _range(response: Any) -> tuple[int | None, int | None]:
    """(first byte, length of the whole file) as the answer states them."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    first, total = found.groups() if found else (None, None)
    return int(first) if first else None, int(total) if total and total != "*" else None


def _version(response: Any) -> str | None:
    """The mark to ask for the same version with: a weak ETag names no exact bytes, and asking by it is refused."""
    mark = response.headers.get("ETag", "W/")
    return response.headers.get("Last-Modified") if mark.startswith("W/") else mark


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"

"""A downloader for pooch that resumes after a broken connection.

Why not `pooch.HTTPDownloader`: it starts again from the first byte, and writes as many bytes as the server sends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciops.files.json_files import write_json
from sciops.files.untrusted import read_json
from sciops.files.whole_files import open_here

_BLOCK = 1 << 20
_TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two blocks
_PAUSE = 2.0  # seconds before the next try
_STATED, _UNSTATED = 1 << 37, 1 << 32  # bytes of a file of unknown size, by whether the server states its length
_REDIRECTS = 10
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")  # RFC 9110, section 14.4


class ResumableDownload:
    """A download for pooch, called as (url, output_file, pooch), that keeps partial files and resumes them.

    Interrupted downloads are retried as long as each connection brings at least a megabyte.

    Parameters
    ----------
    partial : Path
        The partial file. ``<partial>.json`` beside it records the address, the version that the server states (ETag or
        date) and the length, so that the next call requests the missing bytes. A server that cannot send a part sends
        the whole file again; the partial file is kept until it begins to do so.
    name : str
        The file's name in the progress bar and in errors.
    checked : bool
        Whether a hash is compared afterwards. Only then may the missing bytes come from another address or version.
    size : int, optional
        Bytes of the file, where known; a server that states or sends another number is refused.
    limit : int, optional
        Largest size of a file of unknown size; default 128 GiB where the server states its length, else 4 GiB.

    Attributes
    ----------
    resumed : bool
        Whether the last call joined bytes of several connections.

    Raises
    ------
    OSError
        When the server refuses, disconnects, or sends nothing, a web page, compressed bytes or more bytes than
        allowed, and when the disk has not enough space.
    """

    def __init__(
        self,
        partial: Path,
        name: str,
        *,
        checked: bool,
        size: int | None = None,
        limit: int | None = None,
        progress: bool = True,
    ) -> None:
        self.partial, self.name, self.checked, self.progress = partial, name, checked, progress
        self.expected, self.limit = size, limit
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
        """Bytes that have come so far; what a neighbour put in the place of the file has none."""
        with contextlib.suppress(OSError):
            about = self.partial.lstat()
            return about.st_size if stat.S_ISREG(about.st_mode) else 0
        return 0

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
            with _answer(url, headers) as response:
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
                most = self._most(url, size)
                size = self.expected if size is None else size
                room = self._room(size)
                if not done:  # before the notes: they must never speak of other bytes
                    self.partial.unlink(missing_ok=True)
                write_json(self.notes, {"url": url, "version": _version(response), "size": size})
                self._write(url, response, done, size, most, room)
        except requests.exceptions.HTTPError as error:
            answer: Any = error.response
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
            noted = read_json(self.notes)
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

        coding = response.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":  # a few bytes may become any number of them
            raise OSError(f"{url} sends {self.name} compressed ({coding[:40]}), which was not asked for")

    def _most(self, url: str, stated: int | None) -> int:
        """Bytes that the file may have; raises OSError where the server states others."""
        if self.expected is not None:
            if stated not in (None, self.expected):
                raise OSError(f"{url} sends {stated} bytes, {self.name} has {self.expected}")
            return self.expected
        most = self.limit if self.limit is not None else _UNSTATED if stated is None else _STATED
        if stated is not None and stated > most:
            raise self._too_large(url, most)
        return most

    def _too_large(self, url: str, most: int) -> OSError:
        again = "" if self.expected is not None else "; pass a larger limit if that is right"
        return OSError(f"{url} sends more than the {most} bytes that {self.name} may have{again}")

    def _room(self, size: int | None) -> int:
        """Bytes that the file can have on this disk; raises OSError where it has more."""
        room = shutil.disk_usage(self.partial.parent).free + self.size()
        if size is not None and size > room:
            raise self._full(f"{size} bytes", room)
        return room

    def _full(self, size: str, room: int) -> OSError:
        return OSError(
            errno.ENOSPC,
            f"no space for {self.name} of {size}, there are {room} for it in {self.partial.parent.parent}; "
            "free some, or name another folder",
        )

    def _write(self, url: str, response: Any, done: int, size: int | None, most: int, room: int) -> None:
        """Appends what comes to the first `done` bytes; nothing is kept where more than `most` or `room` come."""
        from tqdm.auto import tqdm

        with (
            open(self.partial, "r+b" if done else "wb", opener=open_here) as file,
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
                done += len(block)
                if done > min(most, room):
                    self.forget()
                    raise self._too_large(url, most) if done > most else self._full("unknown size", room)
                file.write(block)
                bar.update(len(block))


@contextlib.contextmanager
def _answer(url: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """The answer to a GET, its body unread. That of a redirection is never read, which requests would hold whole."""
    import requests

    class Session(requests.Session):
        def get_redirect_target(self, resp: Any) -> None:
            return None

    with Session() as session:
        for _ in range(_REDIRECTS):
            with session.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
                if not response.is_redirect:
                    yield response
                    return
                url = requests.compat.urljoin(url, response.headers["Location"])
    raise OSError(f"{url}: more than {_REDIRECTS} redirections")


def _is_the_rest(response: Any, done: int, size: int | None) -> bool:
    """Whether an answer to a question for the rest can be used; one that sends the whole file or refuses can, too."""
    if response.status_code == 416:  # more has come than that file has
        return False
    if response.status_code != 206:
        return True
    start, total = _range(response)
    return start in (done, None) and (None in (total, size) or total == size)


def _size(response: Any, done: int) -> int | None:
    """The length of the whole file, where the answer tells."""
    length = response.headers.get("Content-Length", "")
    if not length.isdecimal():
        return _range(response)[1]
    return done + int(length)


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


def stated_size(url: str) -> int | None:
    """The length that a server states of a file, which is not transferred; None where it states none, or is silent."""
    import requests

    try:
        with _answer(url, {"Accept-Encoding": "identity"}) as response:
            page = response.headers.get("Content-Type", "").lower().startswith("text/html")
            return None if page or response.status_code != 200 else _size(response, 0)
    except (OSError, requests.exceptions.RequestException):
        return None

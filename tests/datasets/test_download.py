"""Downloads against a server on this machine: resumed, mirrored, checked; nothing else is ever contacted."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import importlib
import json
import re
import shutil
import signal
import socket
import threading
from dataclasses import replace

import pytest
from warm import python

pytest.importorskip("pooch")

from sciops.datasets.download import PublicSet, RemoteFile, fetch, public_sets, read_registry, resumable
from sciops.datasets.formats import READERS
from sciops.files.locks import exclusive

CONTENT = bytes(range(256)) * 20_000  # 5 MB


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; the path says what is wrong with it. What breaks sends half of what was asked for."""

    def do_GET(self) -> None:
        server, path = self.server, self.path
        start, status = 0, 200
        mark = None if path == "/unmarked" else server.etag
        if "Range" in self.headers and path != "/norange" and self.headers.get("If-Range", mark) == mark:
            start, status = int(re.match(r"bytes=(\d+)-", self.headers["Range"])[1]), 206
        server.asked.append((path, start))
        if path in ("/moved", "/circle", "/flood"):
            self.send_response(302)
            self.send_header("Location", "/circle" if path == "/circle" else "/data")
            self.end_headers()
            if path == "/flood":
                self.send_without_end()
            return
        if path in ("/packed", "/endless"):
            self.send_response(200)
            if path == "/packed":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.send_without_end()
            return
        if path == "/gone" or start >= len(CONTENT):
            self.send_response(404 if path == "/gone" else 416)
            self.send_header("Content-Length", "0")
            if start:
                self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.end_headers()
            return
        if path == "/page":
            start, status = 0, 200
        start = 0 if path == "/shifted" else start
        whole = {"/other": b"x" + CONTENT[1:], "/page": b"<html>log in</html>", "/empty": b""}.get(path, CONTENT)
        body = whole[start:]
        self.send_response(status)
        if path == "/page":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        if mark is not None:
            self.send_header("ETag", mark)
        self.end_headers()
        if server.breaks and path not in ("/data", "/other", "/page", "/empty"):
            server.breaks -= 1
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.shutdown(2)
            return
        self.wfile.write(body)

    def send_without_end(self) -> None:
        with contextlib.suppress(OSError):  # the client has gone
            while self.server.sent < 1 << 30:
                self.server.sent += self.wfile.write(bytes(1 << 20))

    def log_message(self, *args) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(resumable, "_PAUSE", 0.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.etag, server.asked, server.breaks, server.sent = '"one"', [], 0, 0
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def registry_of(server, *paths, digest=None, size=None):
    digest = "sha256:" + hashlib.sha256(CONTENT).hexdigest() if digest is None else (digest or None)
    urls = tuple(f"http://127.0.0.1:{server.server_port}{path}" for path in paths)
    file = RemoteFile("data.bin", urls, digest, size)
    return {"set": PublicSet("set", "bytes", "native", "nowhere", "sciops generate darcy", {"data.bin": file})}


def test_a_file_is_fetched_once_and_checked(tmp_path, server):
    registry = registry_of(server, "/data")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    assert fetch("set", ["data.bin"], folder=tmp_path, registry=registry, progress=False) == [path]
    assert server.asked == [("/data", 0)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.bin"]


def broken(tmp_path, server, *paths, digest=None, megabytes=2):
    """A folder with the first megabytes of the file, from the first path."""
    registry = registry_of(server, *paths, digest=digest)
    server.breaks = 99
    with pytest.raises(OSError, match=r"bytes are kept, the same call resumes.*sciops generate darcy"):
        fetch("set", folder=tmp_path, registry=registry, progress=False)
    server.breaks = 0
    part = tmp_path / "data.bin.incoming/.bytes"
    assert not (tmp_path / "data.bin").exists() and part.stat().st_size >= megabytes << 20
    assert CONTENT.startswith(part.read_bytes())
    server.asked.clear()
    return registry, part


def test_a_connection_that_breaks_is_made_anew_while_it_brings_something(tmp_path, server):
    server.breaks = 1
    (path,) = fetch("set", folder=tmp_path, registry=registry_of(server, "/broken"), progress=False)
    assert path.read_bytes() == CONTENT
    assert server.asked == [("/broken", 0), ("/broken", len(CONTENT) // 2 >> 20 << 20)]  # whole blocks
    assert [p.name for p in tmp_path.iterdir()] == ["data.bin"]


@pytest.mark.parametrize("path", ["/broken", "/unmarked"])
def test_a_broken_download_goes_on_from_the_bytes_it_has(tmp_path, server, path):
    registry, part = broken(tmp_path, server, path)
    kept = part.stat().st_size
    (done,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert done.read_bytes() == CONTENT and server.asked == [(path, kept)]


@pytest.mark.parametrize("path", ["/broken", "/norange", "/shifted"])
def test_another_version_on_the_server_or_one_without_ranges_is_fetched_from_the_start(tmp_path, server, path):
    registry, part = broken(tmp_path, server, path)
    if path == "/broken":
        server.etag = '"two"'
    (done,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert done.read_bytes() == CONTENT and server.asked[-1] == (path, 0)


def test_the_next_address_goes_on_where_the_one_before_broke_off(tmp_path, server):
    server.breaks = 99
    registry = registry_of(server, "/broken", "/gone", "/page", "/data")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    last, start = server.asked[-1]
    assert last == "/data" and start >= 2 << 20


def test_addresses_that_are_no_use_cost_no_byte_that_has_come(tmp_path, server):
    registry, part = broken(tmp_path, server, "/broken", "/gone", "/page")
    kept = part.read_bytes()
    for path in ("/gone", "/page"):
        with pytest.raises(OSError, match=f"{len(kept)} bytes are kept"):
            fetch("set", folder=tmp_path, registry=registry_of(server, path), progress=False)
    assert part.read_bytes() == kept


def test_without_a_hash_bytes_of_two_addresses_are_never_put_together(tmp_path, server):
    broken(tmp_path, server, "/broken", digest="")
    registry = registry_of(server, "/other", digest="")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert server.asked == [("/other", 0)] and path.read_bytes() == b"x" + CONTENT[1:]


def test_kept_bytes_that_are_wrong_are_fetched_anew_and_the_address_is_not_blamed(tmp_path, server):
    registry, part = broken(tmp_path, server, "/broken")
    part.write_bytes(bytes(part.stat().st_size))
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT and server.asked[-1] == ("/broken", 0)


@pytest.mark.parametrize("size", ["noted", "unknown", "beyond"])
def test_a_download_that_was_killed_when_all_had_come_is_finished(tmp_path, server, size):
    registry, part = broken(tmp_path, server, "/broken")
    part.write_bytes(CONTENT + b"more" * (size == "beyond"))
    notes = json.loads(part.with_name(".bytes.json").read_text())
    if size != "noted":
        part.with_name(".bytes.json").write_text(json.dumps(notes | {"size": None}))
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    # a server answers 416 where nothing is left to send
    asked = {"noted": [], "unknown": [len(CONTENT)], "beyond": [len(CONTENT) + 4, 0]}[size]
    assert server.asked == [("/broken", start) for start in asked]


@pytest.mark.parametrize("digest", [None, ""])
@pytest.mark.parametrize(
    ("path", "told"), [("/page", "sends a web page where the file data.bin"), ("/empty", "no bytes")]
)
def test_pages_and_nothing_are_no_file(tmp_path, server, path, told, digest):
    with pytest.raises(OSError, match=told) as caught:
        fetch("set", folder=tmp_path, registry=registry_of(server, path, digest=digest), progress=False)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_an_address_that_moved_is_followed(tmp_path, server):
    (path,) = fetch("set", folder=tmp_path, registry=registry_of(server, "/moved"), progress=False)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("digest", [None, ""])
@pytest.mark.parametrize(
    ("path", "size", "limit", "told"),
    [
        ("/packed", None, None, r"sends data.bin compressed \(gzip\), which was not asked for"),
        ("/endless", 3 << 20, None, "more than the 3145728 bytes that data.bin may have"),
        ("/endless", None, 3 << 20, "more than the 3145728 bytes that data.bin may have; pass a larger limit"),
        ("/data", None, 3 << 20, "more than the 3145728 bytes that data.bin may have; pass a larger limit"),
        ("/data", 3 << 20, None, "sends 5120000 bytes, data.bin has 3145728"),
        ("/circle", None, None, "more than 10 redirections"),
    ],
)
def test_more_bytes_than_the_file_has_are_not_taken(tmp_path, server, path, size, limit, told, digest):
    registry = registry_of(server, path, digest=digest, size=size)
    with pytest.raises(OSError, match=told) as caught:
        fetch("set", folder=tmp_path, registry=registry, limit=limit, progress=False)
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []
    assert server.sent < 64 << 20  # what the buffers of the system hold


def test_an_address_that_sends_too_much_is_followed_by_the_next(tmp_path, server):
    registry = registry_of(server, "/endless", "/packed", "/data", size=len(CONTENT))
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT and [p.name for p in tmp_path.iterdir()] == ["data.bin"]


def test_the_body_of_a_redirection_is_not_read(tmp_path, server):
    (path,) = fetch("set", folder=tmp_path, registry=registry_of(server, "/flood"), progress=False)
    assert path.read_bytes() == CONTENT and server.sent < 64 << 20


def test_bytes_without_a_length_end_where_the_disk_does(tmp_path, server, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    with pytest.raises(OSError, match="no space for data.bin of unknown size, there are 1048576 for it"):
        fetch("set", folder=tmp_path, registry=registry_of(server, "/endless"), progress=False)
    assert server.sent < 64 << 20 and list(tmp_path.iterdir()) == []


def test_a_server_that_says_nothing_is_left_after_a_while(tmp_path, server, monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(resumable, "_TIMEOUT", (0.2, 0.2))
        registry = registry_of(server, "/data")
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/data"
        file = replace(registry["set"].files["data.bin"], urls=(url,))
        with pytest.raises(OSError, match="ReadTimeout") as caught:
            fetch("set", folder=tmp_path, registry={"set": replace(registry["set"], files={"data.bin": file})})
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_told_before_it_is_full(tmp_path, server, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 20))
    with pytest.raises(OSError, match=r"no space for data.bin of 5120000 bytes, there are 1048576 for it"):
        fetch("set", folder=tmp_path, registry=registry_of(server, "/data", "/data"), progress=False)
    assert server.asked == [("/data", 0)] and list(tmp_path.iterdir()) == []


def test_two_processes_never_fetch_one_file_at_once(tmp_path, server):
    (tmp_path / "data.bin.incoming").mkdir()
    with exclusive(tmp_path / "data.bin.incoming/.lock"):
        with pytest.raises(OSError, match="another process is fetching .*data.bin"):
            fetch("set", folder=tmp_path, registry=registry_of(server, "/data"), progress=False)
    assert server.asked == []
    assert fetch("set", folder=tmp_path, registry=registry_of(server, "/data"), progress=False)


_KILLED = """
import os, signal, sys
import pooch
from sciops.datasets.download import PublicSet, RemoteFile, fetch
def hash_matches(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
pooch.core.hash_matches = hash_matches
file = RemoteFile("data.bin", (sys.argv[1],), sys.argv[2])
fetch("set", folder=sys.argv[3], registry={"set": PublicSet("set", "", "native", "", None, {"data.bin": file})})
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_kill_while_the_hash_is_computed_costs_nothing(tmp_path, server):
    registry = registry_of(server, "/data")
    file = registry["set"].files["data.bin"]
    killed = python(["-c", _KILLED, file.urls[0], file.hash, str(tmp_path)], timeout=100)
    assert killed.returncode == -signal.SIGKILL and not (tmp_path / "data.bin").exists()
    fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert server.asked == [("/data", 0)] and [p.name for p in tmp_path.iterdir()] == ["data.bin"]


def test_mirrors_are_tried_in_turn(tmp_path, server):
    registry = registry_of(server, "/gone", "/other", "/data")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    assert [asked[0] for asked in server.asked] == ["/gone", "/other", "/data"]


def test_wrong_bytes_never_take_the_name(tmp_path, server):
    registry = registry_of(server, "/other")
    with pytest.raises(OSError, match="sends other bytes than sha256:"):
        fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "data.bin").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"has sha256:[0-9a-f]{64}, expected sha256:[0-9a-f]{64}"):
        fetch("set", folder=tmp_path, registry=registry, progress=False)


def test_a_file_without_a_published_hash_is_remembered(tmp_path, server):
    registry = registry_of(server, "/data", digest="")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert (tmp_path / "data.bin.sha256").read_text().strip() == hashlib.sha256(CONTENT).hexdigest()
    path.unlink()
    with pytest.raises(OSError, match="other bytes"):
        fetch("set", folder=tmp_path, registry=registry_of(server, "/other", digest=""), progress=False)


def test_unknown_names_and_sets_without_an_address_say_what_to_do(tmp_path, server):
    with pytest.raises(ValueError, match="no public set 'darcy': expected one of neuralop-darcy-mini"):
        fetch("darcy")
    with pytest.raises(ValueError, match="sciops generate navier_stokes --preset li2020"):
        fetch("li2020-navier-stokes")
    with pytest.raises(ValueError, match=r"has no file 'x': expected some of data\.bin"):
        fetch("set", ["x"], folder=tmp_path, registry=registry_of(server, "/data"))


def test_the_registry_that_comes_with_the_package_is_sound(real_data):
    sets = public_sets()
    files = [file for one in sets.values() for file in one.files.values()]
    assert len(files) > 300 and all(file.urls for file in files)
    assert {one.layout for one in sets.values()} <= set(READERS)
    # by the published hashes: PDEBench lists some files twice under two names
    assert sets["pdebench-navier-stokes"].duplicates() and not sets["pdebench-burgers"].duplicates()
    for name in ("neuralop-darcy-mini", "neuralop-burgers-mini"):
        for file in sets[name].files.values():
            content = (real_data / file.name).read_bytes()
            assert (file.hash, file.size) == ("sha256:" + hashlib.sha256(content).hexdigest(), len(content))


@pytest.mark.parametrize(
    "change, says",
    [
        ({"files": {"../x": {"hash": None, "urls": ["https://a/x"]}}}, "plain name"),
        ({"files": {"x": {"hash": None, "urls": ["file:///x"]}}}, "http or https"),
        ({"files": {"x": {"hash": "abc", "urls": ["https://a/x"]}}}, "the hash of x is abc, expected sha256:"),
        ({"files": {"x": {"hash": "md5:" + 64 * "0", "urls": ["https://a/x"]}}}, "expected .* md5: and 32"),
        ({"files": {"x": {"hash": None, "urls": []}}}, "no address for x"),
        ({"files": {"x": {"hash": None, "size": "1", "urls": ["https://a/x"]}}}, "the size of x is '1', expected"),
        ({"files": None}, "is not a registry"),
    ],
)
def test_a_registry_with_a_wrong_entry_is_refused(tmp_path, change, says):
    entry = {"about": "", "layout": "native", "page": "", "recipe": None, "files": {}} | change
    path = tmp_path / "registry.json"
    path.write_text(json.dumps({"format": "sciops.registry.1", "sets": {"set": entry}}))
    with pytest.raises(ValueError, match=says):
        read_registry(path)


@pytest.mark.parametrize("recipe", sorted({one.recipe for one in public_sets().values() if one.recipe}))
def test_every_recipe_is_a_command_as_it_stands(recipe):
    from sciops.commands.command_line import _take_option, parse

    sciops, generate, name, *options = recipe.split()
    generator = importlib.import_module(f"data_gen.{name}")
    preset = _take_option(options, "--preset", next(iter(generator.PRESETS)))
    config = parse(type(generator.PRESETS[preset]), options, default=generator.PRESETS[preset])
    assert (sciops, generate) == ("sciops", "generate") and config.samples > 1


@pytest.mark.parametrize("name", [".bytes", ".bytes.json"])
def test_planted_links_are_not_followed_by_a_download(tmp_path, server, name):
    """Neither the file that gathers the bytes nor the note of their address is another file of the user."""
    (victim := tmp_path / "victim").write_bytes(CONTENT[:1000])
    (incoming := tmp_path / "cache" / "data.bin.incoming").mkdir(parents=True)
    url = f"http://127.0.0.1:{server.server_port}/data"
    (incoming / ".bytes.json").write_text(json.dumps({"url": url, "version": '"one"', "size": len(CONTENT)}))
    (incoming / name).unlink(missing_ok=True)
    (incoming / name).symlink_to(victim)
    (path,) = fetch("set", folder=tmp_path / "cache", registry=registry_of(server, "/data"), progress=False)
    assert path.read_bytes() == CONTENT and not path.is_symlink()
    assert victim.read_bytes() == CONTENT[:1000] and [p.name for p in (tmp_path / "cache").iterdir()] == ["data.bin"]


def test_a_folder_that_is_a_link_takes_no_download(tmp_path, server):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (tmp_path / "data.bin.incoming").symlink_to(elsewhere)
    with pytest.raises(OSError, match="data.bin.incoming is a link"):
        fetch("set", folder=tmp_path, registry=registry_of(server, "/data"), progress=False)
    assert list(elsewhere.iterdir()) == []

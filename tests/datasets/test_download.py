"""Downloads against a server on this machine: resumed, mirrored, checked; nothing else is ever contacted."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading

import pytest

pytest.importorskip("pooch")

from sciops.datasets.download import PublicSet, RemoteFile, fetch, public_sets, read_registry
from sciops.datasets.readers import READERS

CONTENT = bytes(range(256)) * 20_000  # 5 MB


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; /broken stops half-way once, /gone is not there, /other has other bytes."""

    def do_GET(self) -> None:
        server = self.server
        start = int(re.match(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        ranged = "Range" in self.headers and self.headers.get("If-Range") == server.etag and self.path != "/norange"
        start = start if ranged else 0
        body = (b"x" + CONTENT[1:] if self.path == "/other" else CONTENT)[start:]
        if self.path == "/gone":
            self.send_error(404)
            return
        server.asked.append((self.path, start))
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.etag)
        self.end_headers()
        if self.path in ("/broken", "/norange") and server.breaks:
            server.breaks -= 1
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.shutdown(2)
            return
        self.wfile.write(body)

    def log_message(self, *args) -> None:
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.etag, server.asked, server.breaks = '"one"', [], 1
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def registry_of(server, *paths, digest=None):
    digest = "sha256:" + hashlib.sha256(CONTENT).hexdigest() if digest is None else (digest or None)
    urls = tuple(f"http://127.0.0.1:{server.server_port}{path}" for path in paths)
    file = RemoteFile("data.bin", urls, digest)
    return {"set": PublicSet("set", "bytes", "native", "nowhere", "sciops generate darcy", {"data.bin": file})}


def test_a_file_is_fetched_once_and_checked(tmp_path, server):
    registry = registry_of(server, "/data")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    assert fetch("set", ["data.bin"], folder=tmp_path, registry=registry, progress=False) == [path]
    assert server.asked == [("/data", 0)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.bin"]


def test_a_broken_download_goes_on_from_the_bytes_it_has(tmp_path, server):
    registry = registry_of(server, "/broken")
    with pytest.raises(OSError, match=r"bytes are kept, the same call goes on.*sciops generate darcy"):
        fetch("set", folder=tmp_path, registry=registry, progress=False)
    kept = (tmp_path / "data.bin.partial").stat().st_size
    assert 0 < kept < len(CONTENT) and not (tmp_path / "data.bin").exists()
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    assert server.asked[-1] == ("/broken", kept)


@pytest.mark.parametrize("path", ["/broken", "/norange"])
def test_another_version_on_the_server_or_one_without_ranges_is_fetched_from_the_start(tmp_path, server, path):
    registry = registry_of(server, path)
    with pytest.raises(OSError, match="kept"):
        fetch("set", folder=tmp_path, registry=registry, progress=False)
    if path == "/broken":
        server.etag = '"two"'
    (done,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert done.read_bytes() == CONTENT and server.asked[-1] == (path, 0)


def test_mirrors_are_tried_in_turn(tmp_path, server):
    registry = registry_of(server, "/gone", "/other", "/data")
    (path,) = fetch("set", folder=tmp_path, registry=registry, progress=False)
    assert path.read_bytes() == CONTENT
    assert [asked[0] for asked in server.asked] == ["/other", "/data"]


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
            assert file.hash == "sha256:" + hashlib.sha256((real_data / file.name).read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "change, says",
    [
        ({"files": {"../x": {"hash": None, "urls": ["https://a/x"]}}}, "plain name"),
        ({"files": {"x": {"hash": None, "urls": ["file:///x"]}}}, "http or https"),
        ({"files": {"x": {"hash": "abc", "urls": ["https://a/x"]}}}, "begins with neither"),
        ({"files": None}, "no registry"),
    ],
)
def test_a_registry_with_a_wrong_entry_is_refused(tmp_path, change, says):
    entry = {"about": "", "layout": "native", "page": "", "recipe": None, "files": {}} | change
    path = tmp_path / "registry.json"
    path.write_text(json.dumps({"format": "sciops.registry.1", "sets": {"set": entry}}))
    with pytest.raises(ValueError, match=says):
        read_registry(path)

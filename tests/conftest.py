"""What all tests share: the hypothesis profiles, the development data, a web server on loopback."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from dwcl.data.catalogue import Entry, Mirror

# On shared machines a single slow example says nothing about the code.
settings.register_profile(
    "dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the public data sets for development; tests skip where it is not there."""
    folder = Path(
        os.environ.get("DWCL_DEV_DATA", Path(__file__).parents[2] / "shared" / "data")
    ).resolve()
    if not (folder / "MSRC_v1.mat").exists():
        pytest.skip(f"the development data sets are not in {folder} (set DWCL_DEV_DATA)")
    return folder


@pytest.fixture
def small() -> dict[str, Any]:
    """Settings under which a fit takes a fraction of a second."""
    return {
        "encoder": (32, 32),
        "latent": 16,
        "embedding": 8,
        "pretrain_epochs": 8,
        "iterations": 2,
        "epochs": 6,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "n_init": 3,
        "threads": 1,
        "precision": "fp32",
    }


@pytest.fixture
def no_room() -> Callable[[int], AbstractContextManager[None]]:
    """Let no file of this process grow beyond so many bytes: the system refuses, as if full."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(room: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@dataclass
class Web:
    """What the server answers by path, and which paths were asked for, in order."""

    address: str
    pages: dict[str, tuple[int, bytes, int | None]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    stall: threading.Event = field(default_factory=threading.Event)

    def put(
        self, path: str, body: bytes, *, status: int = 200, announced: int | None = None
    ) -> str:
        """Serve `body`, announcing another length than it has where one is given."""
        self.pages[path] = (status, body, announced)
        return self.address + path


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            if self.path == "/stall":
                site.stall.wait(10)
            status, body, announced = site.pages.get(self.path, (404, b"nothing here", None))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if announced is None else announced))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Web(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    site.stall.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def make_entry() -> Callable[..., Entry]:
    """An entry for a file of the given content at the given addresses."""

    def make(content: bytes, *urls: str, **others: Any) -> Entry:
        fields: dict[str, Any] = {
            "name": "tiny",
            "kind": "download",
            "title": "A tiny file",
            "filename": "tiny.bin",
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "mirrors": tuple(Mirror(url=url) for url in urls),
        }
        return Entry(**(fields | others))

    return make

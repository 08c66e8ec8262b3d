"""A web server for tests of downloads: on this machine, and with the faults of others."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer:
    """A web server on this machine that breaks off, forgets ranges or stalls as it is told.

    Attributes:
        files: contents by path; each has a path that begins with a slash.
        headers: more headers of the answer, by path.
        moved: where a path is redirected to.
        requests: paths of what was downloaded, each with the range that was asked for.
        break_after: bytes of the next answers after which the connection is cut.
        ranges: whether it sends parts of files.
        stalls: whether it never answers.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.headers: dict[str, dict[str, str]] = {}
        self.moved: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.break_after: list[int] = []
        self.ranges = True
        self.stall = threading.Event()
        self.stalls = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def do_HEAD(self) -> None:
                outer.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        whole = handler.command == "GET"
        if whole:
            self.requests.append((handler.path, asked))
        if self.stalls:
            self.stall.wait(10)
            return
        more = self.headers.get(handler.path, {})
        if handler.path in self.moved:
            handler.send_response(302)
            for name, value in {**more, "Location": self.moved[handler.path]}.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        data = self.files.get(handler.path)
        if data is None:
            handler.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else None
        if start is not None and start >= len(data):
            handler.send_error(416)
            return
        handler.send_response(200 if start is None else 206)
        if start is not None:
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        body = data[start or 0 :]
        for name, value in more.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if not whole:
            return
        handler.wfile.write(body[: self.break_after.pop(0)] if self.break_after else body)

    def close(self) -> None:
        self.stall.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

"""A toy web server that asks a database for each page."""

import http.server
import socket
import sys
import threading

PORT, DB = int(sys.argv[1]), (sys.argv[2], int(sys.argv[3]))
kept = threading.local()


def ask(key: str) -> bytes:
    """The database's value, by the thread's own connection."""
    if not hasattr(kept, "lines"):
        kept.lines = socket.create_connection(DB, timeout=2).makefile("rwb")
    kept.lines.write(key.encode() + b"\n")
    kept.lines.flush()
    return kept.lines.readline()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        body = ask(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


Server(("127.0.0.1", PORT), Page).serve_forever()

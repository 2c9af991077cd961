"""Messages beside thumbnails of the console: how much later they are answered, and what a thumbnail takes."""

import http.client
import json
import random
import statistics
import struct
import zlib

import load
from beside import MESSAGES_PER_SECOND, Beside, BesideScenario, Repeating, told
from console import sign_in
from servers import Colloquy

ROUNDS = 5
WIDTH, HEIGHT = 4_000, 3_000
# They take turns in the server.
BROWSERS = 2


class Thumbnails(BesideScenario):
    def __init__(self, folder, quick, note):
        super().__init__("thumbnails_beside", Colloquy("thumbnails", folder / "thumbnails"), folder, note)
        self.seconds = 5 if quick else 15

    def beside(self):
        server, cookie, image = self.server, sign_in(self.server, self.server.key), png()
        customers = load.make(server, "create_customer", None, 1, self.folder / "thumbnails.customers",
                              lambda: server.total("customers"))
        ids = load.make(server, "create", customers, 64, self.folder / "thumbnails.conversations",
                        lambda: server.total("conversations"))
        path = f"/console/inbox/attachments/{sent(server, ids, image)}/thumbnail"
        messages = Beside(server, ids, self.seconds)
        try:
            messages.paced()
            before = server.peak_mb()
            alone, beside, took = messages.compare(ROUNDS, lambda: Looking(server, path, cookie))
        finally:
            messages.end()
        self.note(f"- {MESSAGES_PER_SECOND} messages/s, beside {BROWSERS} browsers that ask for the thumbnail of a PNG of {WIDTH:,} × "
                  f"{HEIGHT:,} pixels ({len(image) / 1e6:.1f} MB) again and again, {len(took)} times: each answered in "
                  f"{statistics.median(took) * 1000:,.0f} ms, at most {server.peak_mb():.0f} MB resident, {before:.0f} MB before; "
                  f"{told(alone, beside, 'thumbnails')}")


class Looking(Repeating):
    """Browsers that ask for one thumbnail again and again."""

    def __init__(self, server, path, cookie):
        super().__init__(BROWSERS)
        self.server, self.path, self.cookie = server, path, cookie

    def begin(self):
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)

    def once(self, connection):
        connection.request("GET", self.path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200 or answer.getheader("content-type") != "image/jpeg":
            raise SystemExit(f"GET {self.path} answered {answer.status}: {content[:500]}")


def png():
    """Squares of random colours, which pack to some megabytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rng, rows = random.Random(1), []
    for _ in range(HEIGHT // 4):
        row = b"\0" + b"".join(rng.randbytes(3) * 4 for _ in range(WIDTH // 4))
        rows += [row] * 4
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def sent(server, ids, image):
    """The id of an attachment that is the image of a message."""
    connection = server.connection()
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "image/png",
               "Content-Disposition": 'attachment; filename="squares.png"'}
    connection.request("POST", "/v1/attachments", body=image, headers=headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != 201:
        raise SystemExit(f"POST /v1/attachments answered {answer.status}: {text.decode()}")
    attachment = json.loads(text)["attachment_id"]
    conversation = ids.file.read_text().split()[0]
    server.made(f"/v1/conversations/{conversation}/messages", {"type": "image", "attachment_id": attachment}, server.key)
    return attachment

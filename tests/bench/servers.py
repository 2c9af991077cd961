"""The two servers under measurement: starting and ending them, and what they use. Knows no scenario."""

import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = "op_bench_0123456789abcdefghij"
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A process that prints its address and answers HTTP."""

    def __init__(self, name, command, folder, environment=()):
        self.name, self.command, self.folder = name, command, folder
        self.environment = dict(os.environ, NO_COLOR="1", **dict(environment))
        self.key = "none"
        self.process = None

    def start(self, ready_path=None):
        """Gives the seconds until it answers."""
        begun = time.monotonic()
        log = open(self.folder / f"{self.name}.log", "ab")
        self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                        stderr=log, text=True)
        self.port = self.printed_port()
        while ready_path and self.status(ready_path) != 200:
            time.sleep(0.001)
        return time.monotonic() - begun

    def printed_port(self):
        for line in self.process.stdout:
            found = re.search(r"listening on (https?)://[^ ]*:(\d+)", line)
            if found:
                self.scheme = found[1]
                return int(found[2])
        raise SystemExit(f"{self.name} did not start: see {self.folder}/{self.name}.log")

    def status(self, path):
        try:
            return self.ask("GET", path)[0]
        except OSError:
            return 0

    def ask(self, method, path, body=None, key=None):
        connection = self.connection()
        headers = {"Authorization": f"Bearer {key or self.key}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def connection(self):
        if self.scheme == "http":
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        # Its certificate is one that the benchmark was given: nobody vouches for it.
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=ssl._create_unverified_context())

    def address(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def end(self, how=signal.SIGTERM):
        if self.process:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def cpu_seconds(self):
        return stat_seconds(f"/proc/{self.process.pid}/stat")

    def cpu_by_thread(self):
        """Seconds by thread name."""
        used = {}
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            name = "workers" if name.startswith("actix") else name
            used[name] = used.get(name, 0) + stat_seconds(task / "stat")
        return used

    def memory_mb(self):
        """Resident memory in MB (10^6 bytes): all of it, and what is not backed by files."""
        return self.status_mb("VmRSS", "RssAnon")

    def peak_mb(self):
        """The most resident memory in MB that it has had."""
        return self.status_mb("VmHWM")[0]

    def status_mb(self, *names):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return [int(re.search(rf"{name}:\s+(\d+) kB", text)[1]) * 1024 / 1e6 for name in names]


class Colloquy(Server):
    """Colloquy on a folder of its own, with one account that no limit holds back."""

    def __init__(self, name, folder, more=()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        settings = {"COLLOQUY__SERVER__BIND": "127.0.0.1:0", "COLLOQUY__ADMIN__TOKEN": OPERATOR, **dict(more)}
        super().__init__(name, [ROOT / "target/release/colloquy"], folder, settings)

    def start(self, ready_path="/readyz"):
        return super().start(ready_path)

    def make_account(self):
        account = {"name": "Bench", "plan": "enterprise", "rate_per_minute": 10_000_000, "burst_per_minute": 15_000_000}
        path = "/admin/v1/accounts"
        path += "/" + self.made(path, account)["account_id"] + "/keys"
        self.key = self.made(path, {"type": "prod", "name": "bench"})["key"]

    def made(self, path, body, key=OPERATOR):
        status, text = self.ask("POST", path, body, key)
        if status != 201:
            raise SystemExit(f"POST {path} answered {status}: {text.decode()}")
        return json.loads(text)

    def total(self, what, root="/v1"):
        return json.loads(self.ask("GET", f"{root}/{what}?limit=1")[1])["meta"]["total"]

    def actors(self, metric, kind="conversation"):
        """A figure of the actors of one kind."""
        text = self.ask("GET", "/metrics", key=OPERATOR)[1].decode()
        return sum(float(found) for found in re.findall(rf'{metric}{{kind="{kind}"[^}}]*}} (\S+)', text))

    def stored_bytes(self, name="colloquy.db"):
        """Of its files whose names begin so."""
        return sum(file.stat().st_size for file in self.folder.rglob(f"{name}*"))

    def restart(self, how=signal.SIGTERM):
        self.end(how)
        return self.start()


def bare(folder):
    return Server("bare", [ROOT / "target/release/examples/bare"], folder)


def stat_seconds(path):
    fields = Path(path).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS

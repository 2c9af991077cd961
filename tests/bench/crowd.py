"""The process that plays the outside world for the benchmark (`crowd.rs`), asked by lines."""

import json
import os
import subprocess

from servers import ROOT


class Crowd:
    """Clients in a process of their own; only on these cores, if they are named."""

    def __init__(self, server, cores=None):
        command = [ROOT / "target/release/examples/crowd", f"127.0.0.1:{server.port}", server.key]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if cores:
            os.sched_setaffinity(self.process.pid, cores)

    def ask(self, word, **given):
        self.process.stdin.write(" ".join([word, *(f"{name}={value}" for name, value in given.items())]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the crowd failed at {word}")
        return json.loads(answer)

    def send(self, ids, rate, count, by="http", connections=16, first=0, conversations=64):
        return self.ask("send", rate=rate, count=count, by=by, connections=connections, ids=ids.file,
                        **{"from": first}, ids_count=conversations)

    def end(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()

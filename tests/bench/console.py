"""How long the server takes for each page of the console with many conversations stored.

Usage: python3 -B tests/bench/console.py [SERVER] [--conversations 100000] [--rounds 100]

Prints for each page the median and the 99th percentile in ms, as a client on the same machine sees
them, one request after the other. SERVER is target/release/colloquy.
"""

import argparse
import http.client
import json
import re
import tempfile
import time
import urllib.parse
from pathlib import Path

from servers import OPERATOR, ROOT, Server

PAGES = ["/console/inbox", "/console/inbox?status=all&page=200", "/console/inbox?q=parcel", "/console/customers",
         "/console/documents", "/console/webhooks", "/console/settings/api-keys", "/console/settings/users",
         "/console/settings/account"]
OPERATORS_PAGES = ["/console/overview", "/console/actors", "/console/actors/conversation", "/console/accounts",
                   "/console/store", "/console/nodes"]


def page(server, path, cookie, form=None):
    """One request; gives the answer and the milliseconds that it took."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Cookie": cookie} if cookie else {}
    if form:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    begun = time.perf_counter()
    connection.request("POST" if form else "GET", path, body=form and urllib.parse.urlencode(form), headers=headers)
    answer = connection.getresponse()
    answer.read()
    took = (time.perf_counter() - begun) * 1000
    connection.close()
    return answer, took


def cookie_of(answer):
    return re.match(r"[^;]+", answer.getheader("set-cookie"))[0]


def sign_in(server, key):
    """The cookie of a person who administers the account of this key."""
    user = {"name": "Grace", "email": "grace@example.com", "role": "admin"}
    user = json.loads(server.ask("POST", "/v1/users", user, key)[1])["user_id"]
    url = json.loads(server.ask("POST", f"/v1/users/{user}/invitations", {}, key)[1])["url"]
    password = {"password": "a sentence to remember", "repeated": "a sentence to remember"}
    return cookie_of(page(server, urllib.parse.urlparse(url).path, None, password)[0])


def fill(server, key, conversations):
    """Conversations of one customer, each with a message."""
    customer = json.loads(server.ask("POST", "/v1/customers", {"name": "Ada Lovelace"}, key)[1])["customer_id"]
    for number in range(conversations // 100):
        body = {"customer_id": customer, "initial_message": f"Where is parcel {number}?"}
        operations = [{"op": "create", "body": body}] * 100
        status, text = server.ask("POST", "/v1/conversations/bulk", {"operations": operations}, key)
        assert status == 200, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", nargs="?", default=str(ROOT / "target/release/colloquy"))
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server("colloquy", [str(Path(asked.server).resolve())], Path(folder),
                        {"COLLOQUY__SERVER__BIND": "127.0.0.1:0", "COLLOQUY__ADMIN__TOKEN": OPERATOR})
        server.start("/readyz")
        try:
            measure(server, asked)
        finally:
            server.process.kill()


def measure(server, asked):
    limits = {"name": "Bench", "plan": "enterprise", "rate_per_minute": 1_000_000, "burst_per_minute": 1_500_000}
    account = json.loads(server.ask("POST", "/admin/v1/accounts", limits, OPERATOR)[1])["account_id"]
    key = json.loads(server.ask("POST", f"/admin/v1/accounts/{account}/keys", {"type": "prod"}, OPERATOR)[1])["key"]
    fill(server, key, asked.conversations)
    person = sign_in(server, key)
    operator = cookie_of(page(server, "/console/sign-in", None, {"token": OPERATOR})[0])
    newest = json.loads(server.ask("GET", "/v1/conversations?limit=1", None, key)[1])["data"][0]["conversation_id"]
    print(f"{asked.conversations} conversations, {asked.rounds} rounds; ms")
    print(f"{'median':>8} {'p99':>8}")
    for paths, cookie in [(PAGES + [f"/console/inbox/{newest}"], person), (OPERATORS_PAGES, operator)]:
        for path in paths:
            took = []
            for _ in range(asked.rounds):
                answer, ms = page(server, path, cookie)
                assert answer.status == 200, (path, answer.status)
                took.append(ms)
            took.sort()
            print(f"{took[len(took) // 2]:8.1f} {took[len(took) * 99 // 100]:8.1f}  {path}")


if __name__ == "__main__":
    main()

"""Signs a request with PyPI's http-message-signatures, as its users do: the request as JSON on stdin,
its headers on stdout."""

import json
import sys

from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms


class Resolver(HTTPSignatureKeyResolver):
    def __init__(self, secret):
        self.secret = secret

    def resolve_private_key(self, key_id):
        return self.secret.encode()

    resolve_public_key = resolve_private_key


class Message:
    def __init__(self, asked):
        self.method, self.url, self.headers = asked["method"], asked["url"], asked["headers"]


asked = json.load(sys.stdin)
message = Message(asked)
signer = HTTPMessageSigner(
    signature_algorithm=algorithms.HMAC_SHA256, key_resolver=Resolver(asked["secret"])
)
body = asked["body"]
signer.sign(
    message,
    key_id=asked["key_id"],
    nonce=asked["nonce"],
    covered_component_ids=("@method", "@target-uri", "authorization"),
    body=body.encode() if body is not None else None,
)
json.dump(dict(message.headers), sys.stdout)

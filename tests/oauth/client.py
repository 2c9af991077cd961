"""What software of others does at the authorization server, by Authlib, oauthlib and PyJWT as their users call them.

Reads {"step": name, …} from standard input, and writes what came of it as JSON.
"""

import json
import os
import sys

os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # The tests' server speaks plain HTTP on loopback.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

import warnings

import jwt
import requests
from authlib.integrations.requests_client import OAuth2Session
from authlib.deprecate import AuthlibDeprecationWarning
from oauthlib.oauth2 import BackendApplicationClient, WebApplicationClient


def metadata(asked):
    return requests.get(asked["issuer"] + "/.well-known/oauth-authorization-server", timeout=30).json()


def session(asked, **more):
    """Authlib's session; a public client says its name alone."""
    secret = asked.get("client_secret")
    return OAuth2Session(
        asked["client_id"],
        secret,
        scope=asked.get("scope"),
        redirect_uri=asked.get("redirect_uri"),
        code_challenge_method="S256",
        token_endpoint_auth_method=asked.get("auth", "client_secret_basic" if secret else "none"),
        **more,
    )


def authlib_begin(asked):
    url, state = session(asked).create_authorization_url(
        metadata(asked)["authorization_endpoint"], code_verifier=asked["verifier"]
    )
    return {"url": url, "state": state}


def authlib_finish(asked):
    server = metadata(asked)
    client = session(asked, state=asked["state"])
    token = client.fetch_token(
        server["token_endpoint"], authorization_response=asked["came_to"], code_verifier=asked["verifier"]
    )
    read = client.get(asked["issuer"] + "/v1/conversations").status_code
    refreshed = client.refresh_token(server["token_endpoint"], refresh_token=token["refresh_token"])
    again = client.get(asked["issuer"] + "/v1/conversations").status_code
    known = client.introspect_token(server["introspection_endpoint"], token=refreshed["access_token"]).json()
    revoked = client.revoke_token(server["revocation_endpoint"], token=refreshed["refresh_token"]).status_code
    after = requests.get(
        asked["issuer"] + "/v1/conversations",
        headers={"Authorization": "Bearer " + refreshed["access_token"]},
        timeout=30,
    ).status_code
    return {
        "token": dict(token),
        "read": read,
        "refreshed": dict(refreshed),
        "again": again,
        "known": known,
        "revoked": revoked,
        "after": after,
    }


def oauthlib_begin(asked):
    client = WebApplicationClient(asked["client_id"], code_verifier=asked["verifier"])
    url = client.prepare_request_uri(
        metadata(asked)["authorization_endpoint"],
        redirect_uri=asked["redirect_uri"],
        scope=asked["scope"].split(),
        state="the state",
        code_challenge=client.create_code_challenge(asked["verifier"], "S256"),
        code_challenge_method="S256",
    )
    return {"url": url, "state": "the state"}


def oauthlib_finish(asked):
    client = WebApplicationClient(asked["client_id"], code_verifier=asked["verifier"])
    answered = client.parse_request_uri_response(asked["came_to"], state=asked["state"])
    body = client.prepare_request_body(
        code=answered["code"],
        redirect_uri=asked["redirect_uri"],
        client_secret=asked["client_secret"],
        code_verifier=asked["verifier"],
    )
    given = requests.post(
        metadata(asked)["token_endpoint"],
        data=body,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        timeout=30,
    )
    token = client.parse_request_body_response(given.text)
    url, headers, _ = client.add_token(asked["issuer"] + "/v1/conversations")
    return {"token": dict(token), "iss": answered.get("iss"), "read": requests.get(url, headers=headers, timeout=30).status_code}


def credentials(asked):
    """The client acts for its account: once by each package."""
    endpoint = metadata(asked)["token_endpoint"]
    by_authlib = session(asked).fetch_token(endpoint, grant_type="client_credentials")
    backend = BackendApplicationClient(asked["client_id"], scope=asked["scope"].split())
    given = requests.post(
        endpoint,
        data=backend.prepare_request_body(),
        auth=(asked["client_id"], asked["client_secret"]),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        timeout=30,
    )
    by_oauthlib = backend.parse_request_body_response(given.text)
    return {"authlib": dict(by_authlib), "oauthlib": dict(by_oauthlib)}


def verify(asked):
    """PyJWT verifies with the published keys."""
    server = metadata(asked)
    key = jwt.PyJWKClient(server["jwks_uri"]).get_signing_key_from_jwt(asked["token"])
    claims = jwt.decode(
        asked["token"],
        key.key,
        algorithms=["EdDSA"],
        audience=asked["issuer"],
        issuer=server["issuer"],
        options={"require": ["iss", "aud", "sub", "exp", "iat", "jti"]},
    )
    return {"claims": claims, "header": jwt.get_unverified_header(asked["token"])}


def foreign(asked):
    """An issuer of its own, made with Authlib: its key set, and a token for each case, signed by the key that the case names."""
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from authlib.jose import JsonWebKey, jwt as signing

    kinds = {"RS256": ("RSA", 2048), "PS256": ("RSA", 2048), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
    keys = {}
    for name, algorithm in asked["keys"].items():
        kind, size = kinds[algorithm]
        options = {"kid": name, "alg": algorithm, "use": "sig"}
        keys[name] = JsonWebKey.generate_key(kind, size, is_private=True, options=options)
        # One of 128 keys has a coordinate that begins with a zero, which Authlib leaves out.
        while name == "short" and len(keys[name].as_dict()["x"]) == len(keys[name].as_dict()["y"]):
            keys[name] = JsonWebKey.generate_key(kind, size, is_private=True, options=options)
    # Without a name of its own, or Authlib would write that into the header.
    nameless = {
        name: JsonWebKey.import_key({k: v for k, v in key.as_dict(is_private=True).items() if k not in ("kid", "alg", "use")})
        for name, key in keys.items()
    }
    tokens = [
        signing.encode({"alg": case["alg"], "kid": case["kid"], **case.get("header", {})}, case["claims"], nameless[case["key"]]).decode()
        for case in asked["cases"]
    ]
    return {"jwks": {"keys": [key.as_dict(is_private=False) for key in keys.values()]}, "tokens": tokens}


STEPS = {
    "foreign": foreign,
    "authlib_begin": authlib_begin,
    "authlib_finish": authlib_finish,
    "oauthlib_begin": oauthlib_begin,
    "oauthlib_finish": oauthlib_finish,
    "credentials": credentials,
    "verify": verify,
}

if __name__ == "__main__":
    question = json.load(sys.stdin)
    json.dump(STEPS[question["step"]](question), sys.stdout)

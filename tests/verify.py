"""Checks one delivery's signatures as users do: {"headers", "body", "secret"} on stdin, each package's verdict on stdout."""

import json
import sys

import standardwebhooks
import stripe

TOLERANCE_SECONDS = 300


def verdict(check):
    try:
        check()
    except (stripe.SignatureVerificationError, standardwebhooks.WebhookVerificationError) as error:
        return f"refused: {error}"
    return "accepted"


asked = json.load(sys.stdin)
body, headers, secret = asked["body"], asked["headers"], asked["secret"]
signature = headers.get("x-service-signature")
verify_stripe = stripe.WebhookSignature.verify_header
verify_standard = standardwebhooks.Webhook(secret).verify
json.dump({
    "stripe": verdict(lambda: verify_stripe(body, signature, secret, TOLERANCE_SECONDS)),
    "standardwebhooks": verdict(lambda: verify_standard(body, headers)),
}, sys.stdout)

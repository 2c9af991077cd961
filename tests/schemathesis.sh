#!/usr/bin/env bash
# Schemathesis against /openapi.json of a freshly started server, with a valid key: no 5xx, no undocumented status,
# no schema violation. EXAMPLES bounds the fuzzing of each operation.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly examples="${EXAMPLES:-10}"
readonly version="4.32.5"
readonly venv="tests/.venv"
readonly token="op_schemathesis0123456789abcdefghij"

if [[ "$("$venv/bin/schemathesis" --version 2>/dev/null || true)" != *"$version"* ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
fi
st="$PWD/$venv/bin/schemathesis"

# With the features that the tests are built with: nothing is compiled again behind them.
cargo test --quiet --workspace --test blackbox --no-run
server="$PWD/${CARGO_TARGET_DIR:-target}/debug/colloquy"
[[ "${CARGO_TARGET_DIR:-}" == /* ]] && server="$CARGO_TARGET_DIR/debug/colloquy"

folder="$(mktemp -d)"
cleanup() {
  [[ -n "${pid:-}" ]] && kill -KILL "$pid" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

cd "$folder"
COLLOQUY__SERVER__BIND=127.0.0.1:0 COLLOQUY__ADMIN__TOKEN="$token" COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE=1000000 \
  NO_COLOR=1 "$server" >stdout 2>stderr &
pid=$!

# The printed address, then readiness.
url=""
for _ in $(seq 300); do
  url="$(grep -oE 'http://127\.0\.0\.1:[1-9][0-9]*' stdout | head -n 1 || true)"
  [[ -n "$url" ]] && curl -fsS "$url/readyz" >/dev/null 2>&1 && break
  kill -0 "$pid" 2>/dev/null || { cat stdout stderr; exit 1; }
  sleep 0.1
done
[[ -n "$url" ]] || { echo "the server printed no address"; cat stdout stderr; exit 1; }

# An account without a limit that fuzzing could reach, and a customer, a user, a conversation and a
# document to meet.
post() {
  curl -fsS -X POST -H "Authorization: Bearer $1" -H 'Content-Type: application/json' -d "$3" "$url$2"
}
field() { python3 -c 'import json,sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
account="$(post "$token" /admin/v1/accounts \
  '{"name":"Fuzz","plan":"enterprise","rate_per_minute":1000000,"burst_per_minute":2000000}' | field account_id)"
key="$(post "$token" "/admin/v1/accounts/$account/keys" '{"type":"test"}' | field key)"
customer="$(post "$key" /v1/customers '{"name":"Ada"}' | field customer_id)"
user="$(post "$key" /v1/users '{"name":"Grace","email":"grace@example.com","role":"admin"}' | field user_id)"
conversation="$(post "$key" /v1/conversations "{\"customer_id\":\"$customer\",\"initial_message\":\"Hello\"}" |
  field conversation_id)"
message="$(curl -fsS -H "Authorization: Bearer $key" "$url/v1/conversations/$conversation/messages" |
  python3 -c 'import json,sys; print(json.load(sys.stdin)["data"][0]["message_id"])')"
# Its deliveries fail at once: the name resolves nowhere.
webhook="$(post "$key" /v1/webhooks '{"url":"https://hooks.invalid/","events":["*"]}' | field webhook_id)"
post "$key" "/v1/conversations/$conversation/messages" '{"content":"delivered nowhere"}' >/dev/null
delivery="$(curl -fsS -H "Authorization: Bearer $key" "$url/v1/webhooks/$webhook/deliveries" |
  python3 -c 'import json,sys; print(json.load(sys.stdin)["data"][0]["delivery_id"])')"

documents=/api/v1/documents
document="$(post "$key" "$documents" '{"title":"Guide","content":"one\ntwo\nthree\n"}' | field id)"
post "$key" "$documents/$document/versions" '{"content":"one\ntwo\n3\n","branch":"side"}' >/dev/null
head="$(post "$key" "$documents/$document/versions" '{"content":"1\ntwo\nthree\n"}' | field id)"
comment="$(post "$key" "$documents/$document/comments" '{"start_line":1,"body":"Why?"}' | field comment_id)"
post "$key" "$documents/$document/collaborators" "{\"user_id\":\"$user\",\"role\":\"viewer\"}" >/dev/null
link="$(post "$key" "$documents/$document/share" '{"role":"editor"}')"
share="$(field share_id <<<"$link")"
token_of_link="$(field url <<<"$link" | sed 's|.*/s/||')"

# Ids that exist, so that the ways behind "404" are walked too.
cat >schemathesis.toml <<TOML
[parameters]
"path.conversation_id" = "$conversation"
"path.customer_id" = "$customer"
"path.user_id" = "$user"
"path.message_id" = "$message"
"path.account_id" = "$account"
"path.webhook_id" = "$webhook"
"path.delivery_id" = "$delivery"
"path.document_id" = "$document"
"path.version" = "$head"
"path.comment_id" = "$comment"
"path.share_id" = "$share"
"path.token" = "$token_of_link"
"path.actor_kind" = "conversation"
"path.actor_id" = "$conversation"
TOML

readonly checks="not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance"
# One worker: Python 3.11 counts the depth of its parser's recursion across threads (cpython#106905).
fuzz() {
  "$st" --config-file schemathesis.toml run "$url/openapi.json" --no-color --checks "$checks" --phases examples,coverage,fuzzing \
    --max-examples "$examples" --suppress-health-check all --warnings off --generation-database none \
    --request-timeout 20 --workers 1 -H "Authorization: Bearer $1" "${@:2}"
}

# Two credentials, each at its own doors; first with ids that exist, then with made ones. The operators' part comes
# last: it changes the account, its limits included.
fuzz "$key" --exclude-path-regex '^/(admin|metrics)' --exclude-method DELETE
cp schemathesis.toml real.toml
: >schemathesis.toml
fuzz "$key" --exclude-path-regex '^/(admin|metrics)'
mv real.toml schemathesis.toml
fuzz "$token" --include-path-regex '^/(admin|metrics)' --exclude-path-regex '^/admin/v1/supervision'
# By itself, after all others: it leaves actors with no time to answer in.
fuzz "$token" --include-path-regex '^/admin/v1/supervision'

if grep -E 'ERROR|panicked' stdout stderr; then
  echo "the server logged errors while it was fuzzed"
  exit 1
fi
kill -TERM "$pid"
wait "$pid"
echo "schemathesis: no 5xx, no undocumented status, no schema violation"

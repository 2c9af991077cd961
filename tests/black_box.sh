#!/usr/bin/env bash
# The black-box tests that these arguments of the test binary name. What fails beside others is run
# once more, each by itself: on a machine with two cores that others use, too, what has to happen
# within a time may not. Whatever needed that is told at the end, by name, with what it said at first.
#
# No second run has what must never happen, however busy the machine is (a write that is lost, doubled,
# reordered or half done, a text that stays, one account that sees another), unless it said no more than
# that a request was answered 503: it was refused, as the contract has it for a store that is too slow. Nor
# has anything where more than three have failed: that is no accident.
#
# BLACKBOX names the test binary where somebody has built it already.
#
# Usage: tests/black_box.sh [ARGUMENT OF THE TEST BINARY...], for example: tests/black_box.sh lists:: messages::
set -uo pipefail
cd "$(dirname "$0")/.."

# Like all of tests/run it builds the whole workspace: one package by itself has other features, with
# which everything would be compiled once more.
AGAIN_MAX=3
NEVER='^(addresses|analytics|assigned|attachments|audit|audit_chain|bulk|check|concurrency|console::inbox|crash|delivery_order|disk|document_crash|drills|encrypted_texts|encryption|erasing|events|idempotency|linearizability|moving|oauth|quotas|realtime|redaction|scopes|signatures|sockets|streams|timers|unreadable|usage|webhook_delivery|nodes::(attachments|commits|conditions|deliveries|elsewhere|erasing|faults|feeds|figures|links|paused|quotas|writers))::'

run() {
  if [[ -n ${BLACKBOX:-} ]]; then
    CARGO_MANIFEST_DIR=$PWD "$BLACKBOX" "$@"
  else
    cargo test --workspace --test blackbox -- "$@"
  fi
}

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# What failed tests said first stands far above the end, with the logs of their servers below it.
fail() {
  printf '\n== why\n'
  grep -a -A4 ' panicked at ' "$said" | cut -c 1-400 | tail -n 40
  grep -a -B12 'no order explains' "$said" | cut -c 1-400
  exit "$status"
}

run "$@" 2>&1 | tee "$said"
status=${PIPESTATUS[0]}
((status)) || exit 0

# Whether some of these are what must never happen, and failed by anything else than an answer of 503.
any_never() {
  local test
  for test in "$@"; do
    if [[ $test =~ $NEVER ]] && ! awk -v thread="thread '$test' " '
        index($0, thread) && / panicked at / { getline; found = 1; if (!/ answered 503 /) other = 1 }
        END { exit !(found && !other) }' "$said"; then
      return 0
    fi
  done
  return 1
}

mapfile -t failed < <(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$said" | sort -u)
if ((${#failed[@]} == 0 || ${#failed[@]} > AGAIN_MAX)) || any_never "${failed[@]}"; then
  fail
fi
for test in "${failed[@]}"; do
  printf '\n== once more, by itself: %s\n' "$test"
  run --exact "$test" 2>&1 | tee -a "$said" || fail
done
printf '\npassed by itself, failed beside others: %s\n' "${failed[@]}"

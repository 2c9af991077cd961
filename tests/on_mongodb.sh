#!/usr/bin/env bash
# The black-box suite with every server's store on MongoDB: on the server that tests/run builds from
# tests/ferretdb, or on the one at COLLOQUY_TEST_MONGODB_URI. Each file of tests runs by itself, so
# that databases stay small: FerretDB reads a whole collection for most questions. Left out, and
# told, are the attacks and what support/not_on_mongodb.txt names with its reason.
#
# Usage: tests/on_mongodb.sh [FILE OF TESTS...], for example: tests/on_mongodb.sh messages lists
set -euo pipefail
cd "$(dirname "$0")/.."
export COLLOQUY_TEST_STORE=mongodb

left_out=()
while read -r name reason; do
  if [[ -n $name && $name != "#"* ]]; then
    echo "left out: $name ($reason)"
    left_out+=("$name")
  fi
done <tests/support/not_on_mongodb.txt
echo "left out: hostile:: (attacks measure how long somebody else waits), tidy:: (looks at no store)"
left_out+=(hostile:: tidy::)

is_left_out() {
  local name
  for name in "${left_out[@]}"; do
    if [[ $1 == "$name" || ($name == *:: && $1 == "$name"*) ]]; then return 0; fi
  done
  return 1
}

# Cargo would look at every file of every package again for each file of tests.
BLACKBOX=$(cargo test --workspace --test blackbox --no-run --message-format=json |
  sed -n 's/.*"executable":"\([^"]*\/blackbox-[^"]*\)".*/\1/p')
export BLACKBOX

declare -A of_file=()
while read -r test; do
  if ! is_left_out "$test"; then of_file[${test%%::*}]+="$test "; fi
done < <("$BLACKBOX" --list | sed -n 's/: test$//p')

files=("$@")
if ((${#files[@]} == 0)); then mapfile -t files < <(printf '%s\n' "${!of_file[@]}" | sort); fi
failed=()
for file in "${files[@]}"; do
  read -ra tests <<<"${of_file[$file]:?no such file of tests}"
  printf '%s: ' "$file"
  tests/black_box.sh --exact "${tests[@]}" --test-threads=3 || failed+=("$file")
done
if ((${#failed[@]} > 0)); then
  echo "failed on MongoDB: ${failed[*]}"
  exit 1
fi

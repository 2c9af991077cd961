#!/usr/bin/env bash
# Builds the image of deploy/Dockerfile without a Docker engine and without a registry of images, and
# starts the server in it: with Debian's buildah, on base images made of Debian's packages and of this
# machine's Rust, under the names of those that the Dockerfile begins with. It compiles a release, which
# takes minutes: tests/run leaves it out. Wants root.
#
# Usage: tests/image.sh [FOLDER], where images and layers stay: target/image if nothing is given
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-target/image}")
image=colloquy:image-test
mkdir -p "$folder"

missing=()
for program in buildah debootstrap curl; do
  command -v "$program" >/dev/null || missing+=("$program")
done
if ((${#missing[@]})); then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
fi
buildah() {
  command buildah --root "$folder/layers" --runroot "$folder/run" --storage-driver vfs "$@"
}

# The official image of Rust is Debian with a compiler of C and Rust in /usr/local.
if [[ ! -e $folder/rust.made ]]; then
  rm -rf "$folder/rust"
  debootstrap --variant=minbase --include=build-essential,ca-certificates bookworm "$folder/rust"
  cp -r --no-target-directory "$(rustc --print sysroot)" "$folder/rust/usr/local"
  # Crates may come through a proxy that this machine believes.
  cp /etc/ssl/certs/ca-certificates.crt "$folder/rust/etc/ssl/certs/ca-certificates.crt"
  touch "$folder/rust.made"
fi
# Distroless is what these packages hold, and nobody's user 65532.
if [[ ! -e $folder/distroless.made ]]; then
  rm -rf "$folder/distroless" "$folder/packages"
  mkdir -p "$folder/distroless" "$folder/packages"
  (cd "$folder/packages" && apt-get download -q base-files ca-certificates libc6 libgcc-s1 libgomp1 libssl3 libstdc++6 netbase tzdata)
  for package in "$folder"/packages/*.deb; do dpkg-deb -x "$package" "$folder/distroless"; done
  find "$folder/distroless/usr/share/ca-certificates" -name '*.crt' -exec cat {} + >"$folder/authorities"
  install -D -m 644 "$folder/authorities" "$folder/distroless/etc/ssl/certs/ca-certificates.crt"
  echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$folder/distroless/etc/passwd"
  touch "$folder/distroless.made"
fi
# Usage: base NAME FOLDER [ARGUMENT OF buildah config...]
base() {
  local name=$1 content=$2 container
  shift 2
  if buildah inspect --type image "$name" >/dev/null 2>&1; then return; fi
  container=$(buildah from scratch)
  buildah add -q "$container" "$content" /
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" "$container"
  buildah commit -q --rm "$container" "$name"
}
base docker.io/library/rust:1.95-bookworm "$folder/rust"
base gcr.io/distroless/cc-debian12:nonroot "$folder/distroless" --user 65532:65532

buildah build --isolation chroot --pull-never --layers -f deploy/Dockerfile \
  --ignorefile deploy/Dockerfile.dockerignore -t "$image" .

container=$(buildah from --pull-never "$image")
mounted=$(buildah mount "$container")
fail() {
  echo "the image: $*" >&2
  exit 1
}
server=
end() {
  [[ -z $server ]] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  buildah rm "$container" >/dev/null
}
trap end EXIT

for shell in sh bash dash busybox; do
  [[ -z $(find "$mounted" -name "$shell") ]] || fail "has a shell: $shell"
done
[[ $(buildah inspect --format '{{.OCIv1.Config.User}}' "$container") == 10001:10001 ]] || fail "does not run as 10001"
[[ $(stat -c %u:%g "$mounted/data") == 10001:10001 ]] || fail "/data is not its user's"

# `unshare` in place of a runtime: the image's files, user and folder, this machine's network.
out="$folder/server.out"
env -i COLLOQUY__SERVER__BIND=127.0.0.1:0 unshare --root="$mounted" --wd=/data --setuid 10001 --setgid 10001 \
  /usr/local/bin/colloquy >"$out" 2>&1 &
server=$!
for _ in {1..100}; do
  at=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$out")
  if [[ -n $at ]] && curl -fsS "$at/readyz" >/dev/null 2>&1; then break; fi
  sleep 0.1
done
curl -fsS "$at/readyz" || fail "its server does not answer: $(cat "$out")"
[[ $(ps -o uid= -p "$server" | tr -d ' ') == 10001 ]] || fail "its server does not run as 10001"
echo
du -sh --apparent-size "$mounted" | cut -f 1 | sed 's/^/in the image: /'

#!/bin/sh
# Installs nginx, Chromium, gh and the runtimes of runtimes_test.go, where that can be done, and the Node packages that the end-to-end tests
# use. Does nothing when they are there. No install scripts of Node run.
set -eu
missing=
command -v nginx >/dev/null || missing="$missing nginx-light"
command -v chromium >/dev/null || missing="$missing chromium"
command -v gh >/dev/null || missing="$missing gh"
command -v wget >/dev/null || missing="$missing wget"
command -v javac >/dev/null || missing="$missing default-jdk-headless"
for module in requests httpx aiohttp httplib2 botocore; do
  /usr/bin/python3 -c "import $module" 2>/dev/null || missing="$missing python3-$module"
done
/usr/bin/python3 -c "import grpc" 2>/dev/null || missing="$missing python3-grpcio"
if [ -n "$missing" ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get update -qq
  # shellcheck disable=SC2086 # several names
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
cd "$(dirname "$0")"
for peer in issuer cloudflare; do
  if ! [ -d "$peer/node_modules" ] || ! [ "$peer/node_modules/.package-lock.json" -nt "$peer/package-lock.json" ]; then
    (cd "$peer" && npm ci --ignore-scripts)
  fi
done

#!/bin/sh
# Installs nginx, where that can be done, and the Node packages that the end-to-end tests use. Does nothing when they are there. No
# install scripts of Node run.
set -eu
if ! command -v nginx >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light >/dev/null
fi
cd "$(dirname "$0")/issuer"
if [ -d node_modules ] && [ node_modules/.package-lock.json -nt package-lock.json ]; then
  exit 0
fi
npm ci --ignore-scripts

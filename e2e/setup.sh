#!/bin/sh
# Installs the Node packages that the end-to-end tests use. Does nothing when they are there. No install scripts run.
set -eu
cd "$(dirname "$0")/issuer"
if [ -d node_modules ] && [ node_modules/.package-lock.json -nt package-lock.json ]; then
  exit 0
fi
npm ci --ignore-scripts

#!/usr/bin/env bash
# The part of .ci/run on a real Kubernetes; the chart's tests without a server run with all others. It runs where the programs are in
# the cache, or with TOOLGATE_CLUSTER_BUILD=1, which builds them in about twenty minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. .ci/tests.sh
go build -o "$dir/cluster" ./e2e/cluster

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ]; then
  echo "NOT TESTED: tiers B and C, on a real node: they need Linux and root"
  exit 0
fi
if [ "${TOOLGATE_CLUSTER_BUILD:-0}" = 1 ]; then
  "$dir/cluster" build
fi
tier=c
if ! "$dir/cluster" build -missing; then
  tier=b
  if ! "$dir/cluster" build -missing -only b; then
    echo "NOT TESTED: tiers B and C, on a real node: set TOOLGATE_CLUSTER_BUILD=1 to build what is missing"
    exit 0
  fi
  echo "NOT TESTED: tier C, on a whole node"
fi
export TOOLGATE_CLUSTER=$tier
tests -count=1 -timeout 30m -v ./e2e/cluster

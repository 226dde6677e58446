#!/usr/bin/env bash
# The part of .ci/run on a real Kubernetes; the chart's tests without a server run with all others. It runs where the programs are in
# the cache, or with TOOLGATE_CLUSTER_BUILD=1, which builds them in about twenty minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
cluster=$(mktemp -d)
trap 'rm -rf "$cluster"' EXIT
go build -o "$cluster/cluster" ./e2e/cluster

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ]; then
  echo "NOT TESTED: tiers B and C, on a real node: they need Linux and root"
  exit 0
fi
if [ "${TOOLGATE_CLUSTER_BUILD:-0}" = 1 ]; then
  "$cluster/cluster" build
fi
tier=c
if ! "$cluster/cluster" build -missing; then
  tier=b
  if ! "$cluster/cluster" build -missing -only b; then
    echo "NOT TESTED: tiers B and C, on a real node: set TOOLGATE_CLUSTER_BUILD=1 to build what is missing"
    exit 0
  fi
  echo "NOT TESTED: tier C, on a whole node"
fi
export TOOLGATE_CLUSTER=$tier
if go test -count=1 -timeout 30m -v ./e2e/cluster | tee "$cluster/said"; then exit 0; fi
# A node of one machine may stand still for a while. What fails twice fails.
failed=$(sed -n 's/^--- FAIL: \([A-Za-z0-9_]*\).*/\1/p' "$cluster/said" | paste -sd '|')
[ -n "$failed" ] || exit 1
echo "!! FAILED ONCE, see above. Once more: $failed"
go test -count=1 -timeout 30m -v -run "^($failed)\$" ./e2e/cluster
echo "!! passed the second time"

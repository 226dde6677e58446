#!/usr/bin/env bash
# Builds what the chart's tests run: helm, kubeconform and helm-unittest, from their Go modules, into the cache of the cluster tests. It
# does nothing for what is there. About three minutes on two cores the first time.
set -euo pipefail
cache=${TOOLGATE_CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/toolgate-cluster}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tool NAME VERSION PACKAGE [LINE OF GO.MOD] [LDFLAGS]
tool() {
  local folder="$cache/bin/$1-$2-$(go env GOARCH)"
  if [ -x "$folder/$1" ]; then return; fi
  mkdir -p "$folder" "$work/$1"
  cd "$work/$1"
  printf 'module scratch/%s\n\ngo 1.26.0\n%s\n' "$1" "${4:-}" >go.mod
  go get -tool "$3@$2"
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w ${5:-}" -o "$folder/.$1" "$3"
  mv "$folder/.$1" "$folder/$1" # whole or not at all
}

# Built as a module, helm takes the cluster for Kubernetes 1.20 wherever it asks none.
p=helm.sh/helm/v3/pkg
tool helm v3.22.0 helm.sh/helm/v3/cmd/helm "" \
  "-X $p/chartutil.k8sVersionMajor=1 -X $p/chartutil.k8sVersionMinor=37 -X $p/lint/rules.k8sVersionMajor=1 -X $p/lint/rules.k8sVersionMinor=37"
tool kubeconform v0.8.0 github.com/yannh/kubeconform/cmd/kubeconform
# As its own go.mod has it.
tool helm-unittest v1.1.2 github.com/helm-unittest/helm-unittest/cmd/helm-unittest \
  'replace github.com/vmware-labs/yaml-jsonpath v0.3.2 => github.com/helm-unittest/yaml-jsonpath v0.4.0'

#!/bin/sh
# The nightly test with SPIRE: builds its server and agent from their Go module, has them give this user's processes a JWT-SVID, and runs
# TestActorFromSPIRE with it as the actor of an exchange. Building takes most of an hour on two cores and needs a C compiler, for
# SQLite; what was built is kept in the folder that SPIRE_BIN names (the user's cache, when it is not set).
set -eu
version=v1.13.3
here=$(cd "$(dirname "$0")" && pwd)
bin=${SPIRE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/toolgate-spire/$version}
mkdir -p "$bin"
if ! [ -x "$bin/spire-server" ] || ! [ -x "$bin/spire-agent" ]; then
  source=$(cd "$bin" && go mod download -json "github.com/spiffe/spire@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  (cd "$source" && CGO_ENABLED=1 go build -o "$bin/" ./cmd/spire-server ./cmd/spire-agent)
fi

dir=$(mktemp -d)
pids=
stop() {
  for pid in $pids; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$dir"
}
trap stop EXIT INT TERM
# free prints a port of loopback that nobody listens on.
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# until_true repeats a command for a minute.
until_true() {
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 120 ]; then echo "not within a minute: $*"; cat "$dir"/*.log; exit 1; fi
    sleep 0.5
  done
}
port=$(free)
cat >"$dir/server.conf" <<EOF
server {
  bind_address = "127.0.0.1"
  bind_port = "$port"
  socket_path = "$dir/server.sock"
  trust_domain = "example.org"
  data_dir = "$dir/server"
  jwt_issuer = "https://spire.test"
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3" connection_string = "$dir/server/datastore.sqlite3" } }
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data = {} }
}
EOF
cat >"$dir/agent.conf" <<EOF
agent {
  data_dir = "$dir/agent"
  server_address = "127.0.0.1"
  server_port = "$port"
  socket_path = "$dir/agent.sock"
  trust_bundle_path = "$dir/bundle.pem"
  trust_domain = "example.org"
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
EOF
mkdir "$dir/server" "$dir/agent"
"$bin/spire-server" run -config "$dir/server.conf" >"$dir/server.log" 2>&1 &
pids="$pids $!"
server() { "$bin/spire-server" "$@" -socketPath "$dir/server.sock"; }
until_true server bundle show
server bundle show >"$dir/bundle.pem"
agent=spiffe://example.org/agent
workload=spiffe://example.org/ns/agents/sa/reader
token=$(server token generate -spiffeID "$agent" | sed -n 's/^Token: //p')
server entry create -parentID "$agent" -spiffeID "$workload" -selector "unix:uid:$(id -u)" >/dev/null
"$bin/spire-agent" run -config "$dir/agent.conf" -joinToken "$token" >"$dir/agent.log" 2>&1 &
pids="$pids $!"
fetch() { "$bin/spire-agent" api fetch jwt -audience authorization-server -socketPath "$dir/agent.sock" -output json; }
until_true fetch
fetch >"$dir/fetched.json"
python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[0]["svids"][0]["svid"])' "$dir/fetched.json" >"$dir/svid.jwt"
server bundle show -format spiffe >"$dir/bundle.json"

cd "$here/.."
SPIRE_SVID="$dir/svid.jwt" SPIRE_BUNDLE="$dir/bundle.json" go test -count=1 -v -run '^TestActorFromSPIRE$' ./e2e

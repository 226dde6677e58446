#!/bin/sh
# Installs the peers that the benchmark takes from Debian. It needs root. Their services are neither started nor left enabled: the
# benchmark runs the programs itself, with configs of its own.
set -eu
programs="squid tinyproxy haproxy nginx"
packages="squid tinyproxy haproxy nginx-light"
missing=
for p in $programs; do
  [ -x "/usr/sbin/$p" ] || [ -x "/usr/bin/$p" ] || missing="$missing $p"
done
if [ -z "$missing" ]; then
  echo "all there: $programs"
  exit 0
fi
# Debian starts a service as it installs it unless this says no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
apt-get update -qq
# shellcheck disable=SC2086 # a list
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
if [ -d /run/systemd/system ]; then
  # shellcheck disable=SC2086 # a list
  systemctl disable --now $missing
fi

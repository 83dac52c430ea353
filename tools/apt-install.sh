#!/bin/bash
# Installs the real servers and the browser that the journeys use, where root and apt allow; no daemon is started.
# Exit 0: all installed. Exit 3: not possible here (one line states the reason).
set -euo pipefail

packages=(varnish hitch memcached beanstalkd nginx haproxy linux-perf nghttp2-server nghttp2-client iproute2 openssh-server openssh-client curl openssl redis-server g++ libmariadb-dev mariadb-server-core mariadb-client-core
    chromium fonts-liberation gnumeric)
programs=(varnishd hitch memcached beanstalkd nginx haproxy perf nghttpd h2load ip sshd ssh curl openssl redis-server
    g++ mariadb_config mariadbd mariadb chromium ssconvert)
PATH=$PATH:/usr/sbin:/sbin

lacking=()
for program in "${programs[@]}"; do
    command -v "$program" >/dev/null || lacking+=("$program")
done
[ ${#lacking[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not here: ${lacking[*]}; installing them takes root and apt (run as root on Debian: make apt)" >&2
    exit 3
fi

# Debian starts a daemon as soon as it is installed, unless this file forbids it.
guard=/usr/sbin/policy-rc.d
if [ ! -e "$guard" ]; then
    trap 'rm -f "$guard"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod 755 "$guard"
fi
export DEBIAN_FRONTEND=noninteractive
"$(dirname "$0")/thrice.sh" apt-get -o DPkg::Lock::Timeout=120 update -qq
"$(dirname "$0")/thrice.sh" apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null

for program in "${programs[@]}"; do
    command -v "$program" >/dev/null || { echo "apt did not bring $program" >&2; exit 3; }
done

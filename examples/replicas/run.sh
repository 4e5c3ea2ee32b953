#!/bin/sh
# Runs Redis, three replicas and HAProxy on this machine until Ctrl-C. See README.md.
set -eu
cd "$(dirname "$0")"

VMCP=${VMCP:-vmcp}
KEYS=${KEYS:-$PWD/keys}

umask 077
mkdir -p "$KEYS"
if [ -z "$(ls "$KEYS")" ]; then
    openssl rand -hex 32 > "$KEYS/$(date +%Y-%m-%d)"
fi
VMCP_SESSION_REDIS_PASSWORD=${VMCP_SESSION_REDIS_PASSWORD:-$(openssl rand -hex 32)}
export VMCP_SESSION_REDIS_PASSWORD

processes=
trap 'kill $processes 2>/dev/null || true; wait' EXIT
trap 'exit 130' INT TERM

# Standard input keeps the password out of the list of processes.
redis-server - <<CONFIG &
bind 127.0.0.1
port 6390
requirepass $VMCP_SESSION_REDIS_PASSWORD
maxmemory-policy noeviction
save ""
CONFIG
processes="$processes $!"

replica() {
    # Each replica has an address of its own for the others, and the same port.
    "$VMCP" serve --config vmcp.yaml --port "450$1" --trusted-proxies 1 \
        --seal-key "$KEYS" --peer-listen "127.0.0.1$1" --peer-network 127.0.0.0/24 &
    processes="$processes $!"
    echo "replica $1 has process id $!"
}
replica 1
replica 2
replica 3

haproxy -f haproxy.cfg &
processes="$processes $!"
wait

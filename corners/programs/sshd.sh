# OpenSSH's server, which puts the process that speaks with clients into a sandbox of its own before they have logged in. A client logs in
# by key and runs a command. The arguments, if any, are the profiler and its options.
set -u
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "the server needs root"
sshd=$(command -v sshd || command -v /usr/sbin/sshd) || skip "sshd is not installed"
command -v ssh >/dev/null && command -v ssh-keygen >/dev/null || skip "ssh is not installed"
mkdir -p /run/sshd
for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$PWD/$key"; done

# Ports are tried until one is free; the server says when it listens.
listening() {
    for _ in $(seq 400); do
        grep -q "Server listening" log && return 0
        kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}
port=$((20000 + $$ % 20000))
for _ in 1 2 3 4 5; do
    port=$((port + 1))
    # -r: the server is not executed anew for each client, so that the profiler stays in the sandboxed process.
    "$@" "$sshd" -D -e -r -f /dev/null -h "$PWD/host" -p "$port" -o ListenAddress=127.0.0.1 -o PidFile="$PWD/pid" -o UsePAM=no \
        -o StrictModes=no -o AuthorizedKeysFile="$PWD/user.pub" -o PermitRootLogin=yes -o LogLevel=VERBOSE 2>log &
    server=$!
    listening && break
done
for i in 1 2 3 4 5 6; do
    ssh -F /dev/null -i user -p "$port" -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
        -o IdentitiesOnly=yes 127.0.0.1 "echo login $i; seq 10000 | cksum; exit $i"
    echo "ended with $?"
done
kill "$(cat pid)"
wait "$server"
status=$?
# The profiler's own: what its answer lacks.
[ -n "${1:-}" ] && [ $status -ge 94 ] && [ $status -le 101 ] && status=0
echo "the server ended with $status"
echo "logged in $(grep -c 'Accepted publickey' log) times; trouble: $(grep -ci 'fatal\|terminated by signal' log)"
echo done

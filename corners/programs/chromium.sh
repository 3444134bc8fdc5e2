# Chromium with its sandbox: name spaces and seccomp filters, which it refuses to have as root. The arguments, if any, are the profiler
# and its options.
set -u
skip() { echo "skipped: $1"; exit 77; }
# The program itself, not the script that starts it: the profiler does not follow an exec.
chromium=/usr/lib/chromium/chromium
[ -x $chromium ] || skip "$chromium is not installed"
user=
if [ "$(id -u)" = 0 ]; then
    command -v setpriv >/dev/null || skip "setpriv is not installed, and chromium must not be root"
    user="setpriv --reuid 65534 --regid 65534 --clear-groups"
    [ -z "${1:-}" ] || $user test -x "$1" || skip "another user cannot execute $1"
    folder=$(mktemp -d /tmp/whatif-chromium-XXXXXX)
    trap 'rm -rf "$folder"' EXIT
    chown 65534:65534 "$folder"
    cd "$folder" || exit 1
fi
$user unshare --user true 2>/dev/null || skip "the kernel gives users no name spaces of their own, which the sandbox needs"
page='data:text/html,<p id=sum></p><script>let s=0;for(let i=0;i<1e7;i++)s=s*31+i&65535;sum.textContent=s</script>'
$user env HOME="$PWD" XDG_CACHE_HOME="$PWD/cache" "$@" $chromium --headless --disable-gpu --no-first-run --disable-background-networking \
    --user-data-dir="$PWD/profile" --dump-dom "$page" 2>log
status=$?
# The profiler's own: what its answer lacks.
[ -n "${1:-}" ] && [ $status -ge 94 ] && [ $status -le 101 ] && status=0
[ $status = 0 ] || cat log >&2
echo "ended with $status"
echo done

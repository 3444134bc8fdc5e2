# A Java virtual machine. The arguments, if any, are the profiler and its options.
set -eu
skip() { echo "skipped: $1"; exit 77; }
command -v java >/dev/null && command -v javac >/dev/null || skip "java and javac are not installed"
javac -d . "$(dirname "$0")/Corner.java"
exec "$@" java -XX:+UseG1GC -Xmx128m -cp . Corner

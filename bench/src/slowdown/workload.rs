//! Programs with a fixed amount of work, of different kinds.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{calls, program};

/// A program that runs for half a second or so.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    /// What must be on PATH.
    pub needs: &'static str,
    /// For a shell: `$T` is a folder, `$W` our own program.
    script: &'static str,
}

const fn workload(name: &'static str, needs: &'static str, script: &'static str) -> Workload {
    Workload { name, needs, script }
}

pub const WORKLOADS: [Workload; 14] = [
    workload("compile", "cc", "seq 8 | xargs -P2 -I{} cc -O1 -DN={} -c $T/a.c -o $T/a{}.o"),
    workload("processes", "sh", "n=0; while [ $n -lt 500 ]; do /bin/true; n=$((n+1)); done"),
    workload("compress", "xz", "xz -1 -T2 --block-size=4MiB -c $T/noise >/dev/null"),
    workload(
        "database",
        "sqlite3",
        "sqlite3 :memory: 'CREATE TABLE t(a, b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<200000) \
         INSERT INTO t SELECT x, hex(x*7919 % 104729) FROM c; CREATE INDEX i ON t(b); SELECT count(*) FROM t x JOIN t y ON x.b=y.b; \
         SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 LIMIT 9' >/dev/null",
    ),
    workload(
        "git",
        "git",
        "rm -rf $T/g && git init -q $T/g && cd $T/g && split -b 20000 ../noise f && git add . && git -c user.name=a -c user.email=a@b commit -qm a",
    ),
    workload(
        "perl",
        "perl",
        "perl -e 'my %h; for my $i (1..900000) { $h{$i%1000} .= sprintf(\"%d\",$i); $h{$i%1000}=\"\" if length($h{$i%1000})>100 }'",
    ),
    workload(
        "node",
        "node",
        "node -e 'function f(n) { return n < 2 ? n : f(n-1) + f(n-2) }; for (let k = 0; k < 500; k++) JSON.stringify([...Array(99)].map((_, i) => f(i % 20)))'",
    ),
    workload("memory", "cc", "$W memory 50"),
    workload("syscalls", "cc", "$W syscalls 3000000"),
    workload("faults", "cc", "$W faults 250"),
    workload("pipes", "cc", "$W pipes 60000"),
    workload("web server", "cc", "$W loopback 10000"),
    workload("locks", "cc", "$W locks 30000"),
    workload("desktop", "cc", "$W desktop 40"),
];

/// What the workloads need.
pub struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut random = fastrand::Rng::with_seed(1);
        let noise: Vec<u8> = (0..8_000_000).map(|_| random.u8(..) & random.u8(..)).collect();
        std::fs::write(folder.path().join("noise"), noise)?;
        let source: String = (0..150)
            .map(|n| format!("int f{n}(int *a, int n) {{ int s = N; for (int i = 0; i < n; i++) s += a[i] * {n} ^ s >> 3; return s; }}\n"))
            .collect();
        std::fs::write(folder.path().join("a.c"), source)?;
        Ok(Self { folder, program: calls::build("slowdown")? })
    }
}

impl Workload {
    /// Runs it; how long it took, in seconds.
    pub fn run(&self, place: &Place) -> Result<f64> {
        let mut command = Command::new("sh");
        command.args(["-ec", self.script]).env("T", place.folder.path()).env("W", &place.program);
        command.stdin(Stdio::null());
        let began = std::time::Instant::now();
        let output = program::output(&mut command).with_context(|| format!("the workload {}", self.name))?;
        let elapsed = began.elapsed().as_secs_f64();
        Ok(took(&String::from_utf8_lossy(&output.stdout)).unwrap_or(elapsed))
    }
}

/// How long the work took, if the program has measured it.
fn took(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("took ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_may_measure_for_themselves() {
        assert_eq!(took("hello\ntook 0.25\n"), Some(0.25));
        assert_eq!(took("took long\n"), None);
    }
}

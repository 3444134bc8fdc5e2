//! Whether stacks are whole, of programs as distributions ship them, beside `perf record --call-graph dwarf`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::daemon::Daemon;
use super::{Bench, as_number};
use crate::peer::on_path;
use crate::program;

/// A name, what must be on PATH, what the process is called, and what it does; `$T` is a folder, `$S` how many seconds it may take.
const PROGRAMS: [(&str, &str, &str, &str); 11] = [
    ("xz", "xz", "xz", "exec timeout $S xz -9 -T1 -c $T/noise >/dev/null"),
    (
        "sqlite3",
        "sqlite3",
        "sqlite3",
        "exec timeout $S sqlite3 :memory: 'CREATE TABLE t(a,b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<400000) \
         INSERT INTO t SELECT x, hex(x*7919 % 104729) FROM c; SELECT count(*) FROM t x JOIN t y ON x.a=y.a+1 WHERE x.b<y.b; \
         SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 LIMIT 9; SELECT sum(length(x.b||y.b)) FROM t x, t y LIMIT 1'",
    ),
    (
        "perl",
        "perl",
        "perl",
        "exec timeout $S perl -e 'my %h; for my $i (1..1e9) { $h{$i%1000} .= sprintf(\"%d\",$i); $h{$i%1000}=\"\" if length($h{$i%1000})>100 }'",
    ),
    (
        "git",
        "git",
        "git",
        "cd $T && git init -q g && cd g && cp ../noise a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && \
         for n in 1 2 3 4 5 6 7 8 9; do head -c 3000000 ../noise | od -An -tx1 > b$n; git add b$n; done; exec timeout $S git gc -q --aggressive --prune=now",
    ),
    (
        "openssl",
        "openssl",
        "openssl",
        "exec timeout $S openssl speed -seconds 1 rsa2048 ecdsap256 2>/dev/null >&2",
    ),
    (
        "python",
        "/usr/bin/python3",
        "python3",
        "exec timeout $S /usr/bin/python3 -c 'def f(n): return n if n < 2 else f(n-1) + f(n-2)\nwhile True: sorted(str(f(18)) for _ in range(9))'",
    ),
    (
        "rustc",
        "rustc",
        "rustc",
        "for n in $(seq 400); do echo \"pub fn f$n(x: &[u64]) -> Vec<String> { x.iter().map(|v| format!(\\\"{}-{n}\\\", v)).collect() }\"; done > $T/a.rs; \
         exec timeout $S rustc --crate-type lib -O -o $T/a.rlib $T/a.rs",
    ),
    (
        "node",
        "node",
        "node",
        "exec timeout $S node -e 'function f(n) { return n < 2 ? n : f(n-1) + f(n-2) }; while (1) { JSON.stringify([...Array(99)].map((_, i) => f(i % 20))) }'",
    ),
    (
        "java",
        "java",
        "java",
        "echo 'class A { static int f(int n) { return n < 2 ? n : f(n-1) + f(n-2); } public static void main(String[] a) { long s = 0; while (true) s += f(30); } }' \
         > $T/A.java; exec timeout $S java $T/A.java",
    ),
    (
        "C, frame pointers",
        "cc",
        "with",
        "cc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o $T/with $T/a.c && exec timeout $S $T/with",
    ),
    (
        "C, none",
        "cc",
        "without",
        "cc -O1 -fomit-frame-pointer -fno-optimize-sibling-calls -o $T/without $T/a.c && exec timeout $S $T/without",
    ),
];

/// Calls eight deep, forever.
const SOURCE: &str = "#include <stdlib.h>\nvolatile unsigned x;\n\
    __attribute__((noinline)) unsigned f(unsigned n) { if (!n) { for (int i = 0; i < 2000; i++) x += i * x; return x; } return f(n - 1) + n; }\n\
    int main(void) { for (;;) x += f(8); }\n";

/// What the stacks of a program's samples are like.
#[derive(Clone, Copy, Default)]
struct Whole {
    samples: u64,
    frames: u64,
    /// Stacks of one frame.
    single: u64,
    /// Stacks that begin where a process or a thread does.
    rooted: u64,
    truncated: u64,
    /// Stacks with functions of Python.
    interpreted: u64,
}

impl Whole {
    /// A stack of some samples, from the outside inwards.
    fn add(&mut self, stack: &[&str], samples: u64) {
        /// What is called where a program or a thread begins.
        const ROOTS: [&str; 5] =
            ["_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone3"];
        /// Code of a script's own, and what Python calls the argument of a generator.
        const PYTHON: [&str; 2] = ["<module>", "<genexpr>"];
        let is_mark = |frame: &&&str| !frame.starts_with("[truncated");
        let frames: Vec<&&str> = stack.iter().filter(is_mark).collect();
        let is_root = |frame: &&&str| {
            ROOTS.iter().any(|root| frame.trim_start_matches('_').starts_with(root.trim_start_matches('_')))
        };
        self.samples += samples;
        self.frames += samples * frames.len() as u64;
        self.single += if frames.len() == 1 { samples } else { 0 };
        self.rooted += if frames.iter().take(3).any(is_root) { samples } else { 0 };
        self.truncated += if frames.len() < stack.len() { samples } else { 0 };
        self.interpreted += if frames.iter().any(|frame| PYTHON.contains(frame)) { samples } else { 0 };
    }

    fn part(&self, of: u64) -> f64 {
        100.0 * as_number(of) / as_number(self.samples.max(1))
    }

    fn text(&self) -> String {
        format!(
            "{:>6} {:>6.1} {:>5.1} {:>5.1} {:>5.1}",
            self.samples,
            as_number(self.frames) / as_number(self.samples.max(1)),
            self.part(self.single),
            self.part(self.rooted),
            self.part(self.truncated)
        )
    }
}

/// The name in a line of `perf script`: behind the address.
fn symbol(line: &str) -> &str {
    line.trim_start().split_once(' ').map_or("", |(_, name)| name)
}

impl Bench<'_> {
    pub fn stacks(&self) -> Result<()> {
        let perf = on_path("perf");
        println!(
            "stacks: samples, frames a stack, % of one frame, % from the root, % marked as truncated; and the collector's CPU time"
        );
        println!(
            "{:<18} {:>4}   {:<31}   {:<31}   {:<31} {:>9} {:>9}",
            "", "Hz", "perf, DWARF", "collect", "collect --frame-pointers", "ns/sample", "pointers"
        );
        for &rate in self.options.rates.iter().filter(|rate| **rate <= 1000) {
            for program in PROGRAMS {
                if on_path(program.1).is_none() && !Path::new(program.1).exists() {
                    println!("{:<18} is not on PATH", program.0);
                    continue;
                }
                let of_perf = match &perf {
                    Some(perf) => self.by_perf(perf, program.3, rate)?.text(),
                    None => "not on PATH".to_owned(),
                };
                let (ours, cost) = self.by_collect(program, rate, &[])?;
                let (pointers, cost_of_pointers) = self.by_collect(program, rate, &["--frame-pointers"])?;
                println!(
                    "{:<18} {rate:>4}   {of_perf:<31}   {:<31}   {:<31} {cost:>9.0} {cost_of_pointers:>9.0}",
                    program.0,
                    ours.text(),
                    pointers.text()
                );
                if ours.interpreted > 0 {
                    println!(
                        "{:<18} {rate:>4}   {:.1} % with Python's functions",
                        "",
                        ours.part(ours.interpreted)
                    );
                }
            }
        }
        Ok(())
    }

    /// The shell with what it needs.
    fn shell(&self, script: &str) -> Result<(tempfile::TempDir, Command)> {
        let folder = tempfile::tempdir()?;
        let mut random = fastrand::Rng::with_seed(1);
        let noise: Vec<u8> = (0..24_000_000).map(|_| random.u8(..) & random.u8(..)).collect();
        std::fs::write(folder.path().join("noise"), noise)?;
        std::fs::write(folder.path().join("a.c"), SOURCE)?;
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("T", folder.path()).env("S", self.options.seconds.to_string());
        command.stdout(Stdio::null()).stdin(Stdio::null());
        Ok((folder, command))
    }

    fn by_perf(&self, perf: &Path, script: &str, rate: u32) -> Result<Whole> {
        let (folder, shell) = self.shell(script)?;
        let data = folder.path().join("perf.data");
        let mut command = Command::new(perf);
        command.args([
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "--call-graph",
            "dwarf",
            "-F",
            &rate.to_string(),
            "-o",
        ]);
        command.arg(&data).arg("--").arg(shell.get_program()).args(shell.get_args());
        command.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let mut command = Command::new(perf);
        command.args(["script", "--no-inline", "-F", "ip,sym", "-i"]).arg(&data).stderr(Stdio::null());
        let output = command.output().with_context(|| format!("{command:?}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut whole = Whole::default();
        for block in text.split("\n\n") {
            let lines: Vec<&str> = block.lines().filter(|line| !line.trim().is_empty()).collect();
            let stack: Vec<&str> = lines.iter().rev().map(|line| symbol(line)).collect();
            if !stack.is_empty() {
                whole.add(&stack, 1);
            }
        }
        Ok(whole)
    }

    fn by_collect(
        &self,
        (_, _, process, script): (&str, &str, &str, &str),
        rate: u32,
        options: &[&str],
    ) -> Result<(Whole, f64)> {
        let database = tempfile::tempdir()?;
        let (_folder, mut shell) = self.shell(script)?;
        let whatif = self.whatif.path();
        let rate = rate.to_string();
        let daemon = Daemon::start(
            whatif,
            database.path(),
            &[&["--rate", &rate, "--interval", "2s", "--max-cpu", "50%"], options].concat(),
        )?;
        let before = daemon.all_cpu()?;
        shell.stderr(Stdio::null()).status()?;
        let used = daemon.all_cpu()? - before;
        daemon.end()?;
        let mut flame = Command::new(whatif);
        flame
            .args([
                "flame",
                "--folded",
                "--roots",
                "none",
                "--no-inlined",
                "--no-recordings",
                "--process",
                process,
                "--db",
            ])
            .arg(database.path());
        let output = program::output(&mut flame)?;
        let mut whole = Whole::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((stack, samples)) = line.rsplit_once(' ') else { continue };
            whole.add(&stack.split(';').collect::<Vec<_>>(), samples.parse().unwrap_or(0));
        }
        Ok((whole, used / as_number(whole.samples.max(1))))
    }
}

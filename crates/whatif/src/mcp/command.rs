//! Commands of ours that run for a client.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// How much of what a command says is kept, from its end, in bytes.
const KEPT: usize = 4000;
/// How much of an answer is read. The longest is a comparison of many regions.
const LONGEST: u64 = 16 << 20;
/// How often a client is told that a command still runs: many give up after a minute of silence.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// The commands that run now, by their process.
#[derive(Debug, Default)]
pub struct Running(Mutex<Vec<Pid>>);

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// As a shell has it: 128 and the signal where it was one.
    pub status: i32,
    /// What it answered, where that was asked for.
    pub answer: String,
    /// The end of what it, and the program, said on standard error.
    pub said: String,
}

/// One of our commands.
#[derive(Debug)]
pub struct Asked<'a> {
    pub arguments: Vec<OsString>,
    /// Where it runs; here, if nothing is said.
    pub directory: Option<&'a Path>,
    /// How long it takes at least, if that is known.
    pub seconds: Option<f64>,
    /// Whether its standard output is the answer. A program's is dropped.
    pub is_answer: bool,
}

impl Running {
    /// Runs one to its end. If the client takes its request back, the command is asked to end, and with it the program.
    pub async fn run(&self, asked: Asked<'_>, context: &RequestContext<RoleServer>) -> Result<Ended> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("whatif").args(&asked.arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if asked.is_answer { Stdio::piped() } else { Stdio::null() });
        if let Some(directory) = asked.directory {
            command.current_dir(directory);
        }
        let place =
            || asked.directory.map_or(String::new(), |directory| format!(" in {}", directory.display()));
        let mut child = command.spawn().with_context(|| format!("starting whatif{}", place()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it has no number")?;
        self.0.lock().expect("no one panics").push(pid);
        let (answer, said, status) = tokio::join!(
            async {
                Ok::<_, anyhow::Error>(match stdout {
                    Some(from) => whole(from).await?,
                    None => String::new(),
                })
            },
            async {
                Ok::<_, anyhow::Error>(match stderr {
                    Some(from) => tail(from).await?,
                    None => String::new(),
                })
            },
            wait(&mut child, pid, asked.seconds, context),
        );
        self.0.lock().expect("no one panics").retain(|one| *one != pid);
        let status = status?;
        let status = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or_default();
        Ok(Ended { status, answer: answer?, said: said? })
    }

    /// Asks all that run to end, and waits until they have.
    pub async fn end_all(&self) {
        let running = || self.0.lock().expect("no one panics").clone();
        running().into_iter().for_each(end);
        while !running().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// As ^C does: the program is asked to end, and what was measured is kept.
fn end(pid: Pid) {
    // It may have ended by itself.
    let _ = kill_process(pid, Signal::INT);
}

async fn wait(
    child: &mut Child,
    pid: Pid,
    seconds: Option<f64>,
    context: &RequestContext<RoleServer>,
) -> Result<std::process::ExitStatus> {
    let (began, token) = (Instant::now(), context.meta.get_progress_token());
    let mut is_taken_back = false;
    loop {
        tokio::select! {
            biased;
            () = context.ct.cancelled(), if !is_taken_back => {
                is_taken_back = true;
                end(pid);
            }
            () = tokio::time::sleep(TOLD_EVERY), if token.is_some() => {
                if let Some(token) = token.clone() {
                    let mut told = ProgressNotificationParam::new(token, began.elapsed().as_secs_f64());
                    told.total = seconds.filter(|total| *total > told.progress);
                    // A client that does not listen is not told.
                    let _ = context.peer.notify_progress(told).await;
                }
            }
            status = child.wait() => {
                if is_taken_back {
                    bail!("the request was taken back");
                }
                return Ok(status?);
            }
        }
    }
}

/// All that is there to read.
async fn whole(from: impl AsyncRead + Unpin) -> Result<String> {
    let mut text = Vec::new();
    from.take(LONGEST).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The end of what is there to read, in whole lines if it is cut.
async fn tail(mut from: impl AsyncRead + Unpin) -> Result<String> {
    let (mut kept, mut piece, mut is_cut) = (Vec::new(), vec![0; KEPT], false);
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&piece[..count]);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
        is_cut |= excess > 0;
    }
    let text = String::from_utf8_lossy(&kept);
    let text = if is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_long_messages_is_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let of = |text: &str| runtime.block_on(tail(text.as_bytes())).unwrap();
        assert_eq!(of("short\n"), "short\n");
        let lines: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        let end = of(&lines);
        assert!(end.len() <= KEPT && end.starts_with("line ") && lines.ends_with(&end), "{end}");
    }
}

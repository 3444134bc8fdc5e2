//! Commands of ours that run for a client.

use std::ffi::OsString;
use std::future::pending;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, Command};

/// How much of what a command says is kept, from its end, in bytes.
const KEPT: usize = 4000;
/// How much of an answer is read. The longest is a comparison of many regions.
const LONGEST: u64 = 16 << 20;
/// How often a client gets a message that a command still runs: many give up after a minute of silence.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// What a command has said is there when it has ended. What it has left behind may keep the pipe open for ever.
const REST: Duration = Duration::from_millis(100);

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
    /// How long it runs a program, whose standard output is dropped. The standard output of a command that runs none is its answer.
    pub seconds: Option<f64>,
}

impl Running {
    /// Runs one to its end. If the client takes its request back, the command is asked to end, and with it the program.
    pub async fn run(&self, asked: Asked<'_>, context: &RequestContext<RoleServer>) -> Result<Ended> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("whatif").args(&asked.arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if asked.seconds.is_none() { Stdio::piped() } else { Stdio::null() });
        if let Some(directory) = asked.directory {
            command.current_dir(directory);
        }
        let place =
            || asked.directory.map_or(String::new(), |directory| format!(" in {}", directory.display()));
        let mut child = command.spawn().with_context(|| format!("starting whatif{}", place()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take().context("it is a pipe")?);
        let pid =
            child.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it has just been started")?;
        self.0.lock().expect("no one panics").push(pid);
        let answered = async {
            match stdout {
                Some(from) => whole(from).await,
                None => Ok(String::new()),
            }
        };
        let ended = async {
            let ended = wait(&mut child, pid, stderr, told(asked.seconds, context), context).await;
            self.0.lock().expect("no one panics").retain(|one| *one != pid);
            ended
        };
        let (answer, ended) = tokio::join!(answered, ended);
        let (status, said) = ended?;
        let status = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or_default();
        Ok(Ended { status, answer: answer?, said })
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

/// The program is asked to end, and what was measured is kept.
fn end(pid: Pid) {
    // It may have ended by itself.
    let _ = kill_process(pid, Signal::TERM);
}

/// Waits until a command has ended, and keeps the end of what it says.
async fn wait(
    child: &mut Child,
    pid: Pid,
    mut stderr: ChildStderr,
    told: impl Future<Output = ()>,
    context: &RequestContext<RoleServer>,
) -> Result<(ExitStatus, String)> {
    let (mut told, mut tail, mut is_taken_back) = (pin!(told), Tail::default(), false);
    let mut piece = vec![0; KEPT];
    let status = loop {
        tokio::select! {
            biased;
            () = context.ct.cancelled(), if !is_taken_back => {
                is_taken_back = true;
                end(pid);
            }
            () = &mut told => {}
            count = stderr.read(&mut piece), if !tail.is_whole => tail.add(&piece[..count?]),
            status = child.wait() => break status?,
        }
    };
    while !tail.is_whole
        && let Ok(count) = tokio::time::timeout(REST, stderr.read(&mut piece)).await
    {
        tail.add(&piece[..count?]);
    }
    if is_taken_back {
        bail!("the request was taken back");
    }
    Ok((status, tail.text()))
}

/// Sends a client that has asked for it messages that a command still runs, and never ends. A client that does not read holds nothing else up.
async fn told(seconds: Option<f64>, context: &RequestContext<RoleServer>) {
    let began = Instant::now();
    let (Some(seconds), Some(token)) = (seconds, context.meta.get_progress_token()) else {
        return pending().await;
    };
    loop {
        tokio::time::sleep(TOLD_EVERY).await;
        let mut told = ProgressNotificationParam::new(token.clone(), began.elapsed().as_secs_f64());
        told.total = Some(seconds).filter(|total| *total > told.progress);
        // It may have gone.
        let _ = context.peer.notify_progress(told).await;
    }
}

/// All that is there to read.
async fn whole(from: impl AsyncRead + Unpin) -> Result<String> {
    let mut text = Vec::new();
    from.take(LONGEST).read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The end of something.
#[derive(Debug, Default)]
struct Tail {
    kept: Vec<u8>,
    is_cut: bool,
    /// Nothing comes any more.
    is_whole: bool,
}

impl Tail {
    fn add(&mut self, more: &[u8]) {
        self.is_whole = more.is_empty();
        self.kept.extend_from_slice(more);
        let excess = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..excess);
        self.is_cut |= excess > 0;
    }

    /// In whole lines if it is cut, and there are any.
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        let lines =
            text.split_once('\n').map(|(_, rest)| rest).filter(|rest| self.is_cut && !rest.is_empty());
        lines.unwrap_or(&text).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_long_messages_is_kept() {
        let of = |text: &str| {
            let mut tail = Tail::default();
            text.as_bytes().chunks(700).for_each(|piece| tail.add(piece));
            tail.text()
        };
        assert_eq!(of("short\n"), "short\n");
        let lines: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        let end = of(&lines);
        assert!(end.len() <= KEPT && end.starts_with("line ") && lines.ends_with(&end), "{end}");
        // A line that is drawn again and again.
        let end = of(&("\rhalf".repeat(2000) + "whatif: no\n"));
        assert!(end.ends_with("whatif: no\n"), "{end}");
    }
}

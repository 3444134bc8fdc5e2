//! One run of a padded program, with or without the profiler, under its load.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::build;
use super::catalogue::{Load, Program, Request};
use super::files;
use super::image::{Function, Functions};
use super::shared::{Progress, Shared};

/// A program that has been built.
#[derive(Debug)]
pub struct Built {
    pub program: &'static Program,
    pub path: PathBuf,
    pub functions: Functions,
    /// The function whose calls are its progress.
    pub point: Function,
    /// With generated files.
    files: PathBuf,
}

/// What is written over entries, besides the progress point's.
#[derive(Clone, Copy, Debug)]
pub enum Patch<'a> {
    /// Nothing else.
    None,
    /// Every function counts its calls.
    CountAll,
    /// One function is padded, by so many iterations in each call.
    Pad(&'a Function, u64),
}

/// A program that runs; it is killed when this is dropped.
#[derive(Debug)]
pub struct Running<'a> {
    child: Child,
    shared: &'a Shared,
    clients: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// What the program says to standard error.
    log: PathBuf,
}

/// How long a program may take to begin its work.
const START: Duration = Duration::from_secs(30);

impl Built {
    pub fn new(program: &'static Program) -> Result<Self> {
        let path = build::program(program)?;
        let functions = Functions::of(&path)?;
        let point = functions.called(program.point)?.clone();
        let files = build::folder()?.join("files");
        files::write(&files)?;
        Ok(Self { program, path, functions, point, files })
    }

    pub fn shared(&self) -> Result<Shared> {
        Shared::new(self.functions.extent())
    }

    /// Its command line for a run that keeps its files in the folder of `shared`.
    pub fn command_line(&self, shared: &Shared) -> Vec<String> {
        let arguments = self.program.arguments(shared.folder(), &self.files);
        std::iter::once(self.path.display().to_string()).chain(arguments).collect()
    }

    /// Runs it natively, and waits until it is at work.
    pub fn start<'a>(&self, patch: Patch, shared: &'a Shared) -> Result<Running<'a>> {
        let line = self.command_line(shared);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        self.start_as(command, patch, shared)
    }

    /// The same for a `command` that starts it.
    pub fn start_as<'a>(
        &self,
        mut command: Command,
        patch: Patch,
        shared: &'a Shared,
    ) -> Result<Running<'a>> {
        shared.clear()?;
        files::write_for_run(shared.folder())?;
        let log = shared.folder().join("log");
        command
            .env("PADDING_FILE", shared.path())
            .env("PADDING_POINT", format!("{:x}", self.point.offset))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            // With all that it starts.
            .process_group(0);
        match patch {
            Patch::None => {}
            Patch::CountAll => {
                command.env("PADDING_FUNCTION", "all");
            }
            Patch::Pad(function, iterations) => {
                shared.set_iterations(iterations)?;
                command.env("PADDING_FUNCTION", format!("{:x}", function.offset));
            }
        }
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = Running { child, shared, clients: Vec::new(), stop, log };
        running.until("it was not patched", || shared.is_ready())?;
        if let Load::Requests { clients, requests } = self.program.load {
            let socket = shared.folder().join("socket");
            for number in 0..clients {
                let mut stream = None;
                running.until("it does not listen", || {
                    stream = UnixStream::connect(&socket).ok();
                    Ok(stream.is_some())
                })?;
                let (stream, stop) = (stream.context("it listens")?, running.stop.clone());
                running.clients.push(thread::spawn(move || client(stream, requests, number as u64, &stop)));
            }
        }
        running.until("its progress point was not called", || Ok(shared.progress()?.visits >= 3))?;
        Ok(running)
    }
}

impl Running<'_> {
    /// Waits until `done`; a program that ends before fails.
    fn until(&mut self, what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !done()? {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended early ({status}), saying: {}", said(&self.log));
            }
            ensure!(
                began.elapsed() < START,
                "{what} within {} s; it says: {}",
                START.as_secs(),
                said(&self.log)
            );
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Visits from now on for so many seconds, and the ticks of the time-stamp counter from a visit to a visit.
    pub fn measure(&mut self, seconds: f64) -> Result<(u64, u64)> {
        let begin = self.shared.progress()?;
        thread::sleep(Duration::from_secs_f64(seconds));
        let end = self.shared.progress()?;
        if let Some(status) = self.child.try_wait()? {
            bail!("it ended early ({status}), saying: {}", said(&self.log));
        }
        between(begin, end)
    }

    /// Waits for its end, for at most so many seconds.
    pub fn wait(&mut self, seconds: f64) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                began.elapsed().as_secs_f64() < seconds,
                "it hangs, and was killed; it says: {}",
                said(&self.log)
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it has said to standard error.
    pub fn said(&self) -> String {
        said(&self.log)
    }
}

/// Visits, and ticks from the last one before to the last of them. Too few visits say nothing about a rate.
pub fn between(begin: Progress, end: Progress) -> Result<(u64, u64)> {
    let visits = end.visits.saturating_sub(begin.visits);
    ensure!(visits >= 5, "only {visits} visits of the progress point; measure for longer with --seconds");
    Ok((visits, end.at.saturating_sub(begin.at).max(1)))
}

fn said(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let start = text.char_indices().rev().nth(600).map_or(0, |(at, _)| at);
    text[start..].trim().to_owned()
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
        let _ = fs::remove_dir_all(self.shared.folder().join("store"));
        for file in ["socket", "database", "database-wal", "database-shm"] {
            let _ = fs::remove_file(self.shared.folder().join(file));
        }
    }
}

/// Asks at random, until the server has gone.
fn client(mut stream: UnixStream, requests: &[Request], seed: u64, stop: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut answer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let request = requests[random.usize(..requests.len())];
        let text = request.text.replace("{key}", &format!("{:05}", random.u32(..10_000)));
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
        // Only the end of what came matters; the parts of one answer follow one another.
        let mut length = 0;
        loop {
            match stream.read(&mut answer[length..]) {
                Ok(more @ 1..) => length += more,
                _ => return,
            }
            if answer[..length].ends_with(request.answer_ends.as_bytes()) {
                break;
            }
            if length == answer.len() {
                return;
            }
        }
    }
}

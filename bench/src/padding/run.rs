//! One run of a padded program, with or without the profiler, under its load.

use std::fs::{self, File};
use std::io;
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
use super::connection::Connection;
use super::files;
use super::image::{Function, Functions};
use super::open::{self, Connections, Traffic};
use super::shared::{Requests, Shared};
use super::stretch::{Moment, Stretch, cpu_time};

/// A program that has been built.
#[derive(Debug)]
pub struct Built {
    pub program: &'static Program,
    pub path: PathBuf,
    pub functions: Functions,
    /// The function whose calls are its progress.
    pub point: Function,
    /// Those at whose entries a request begins and ends, if others ask it.
    pub latency: Option<(Function, Function)>,
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

/// When requests come, if others ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// From the catalogue's clients, each of which waits for its answer.
    Closed,
    /// At times of their own, so many a second.
    Open { rate: f64, connections: Connections },
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub patch: Patch<'a>,
    pub arrivals: Arrivals,
    /// Whether the begin and the end of requests are patched, too, to note when they are. Breakpoints of a profiler are
    /// in the same places.
    pub timed: bool,
}

impl<'a> Setup<'a> {
    /// As most runs are: nothing comes by itself, and nothing is timed.
    pub const fn closed(patch: Patch<'a>) -> Self {
        Self { patch, arrivals: Arrivals::Closed, timed: false }
    }
}

/// A program that runs; it is killed when this is dropped.
#[derive(Debug)]
pub struct Running<'a> {
    child: Child,
    shared: &'a Shared,
    clients: Vec<JoinHandle<io::Result<()>>>,
    /// Of an open loop.
    traffic: Option<Arc<Traffic>>,
    timed: bool,
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
        let latency = match program.latency() {
            None => None,
            Some(latency) => {
                Some((functions.called(latency.begin)?.clone(), functions.called(latency.end)?.clone()))
            }
        };
        let files = build::folder()?.join("files");
        files::write(&files)?;
        Ok(Self { program, path, functions, point, latency, files })
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
    pub fn start<'a>(&self, setup: Setup, shared: &'a Shared) -> Result<Running<'a>> {
        let line = self.command_line(shared);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        self.start_as(command, setup, shared)
    }

    /// Starts it with `command`.
    pub fn start_as<'a>(
        &self,
        mut command: Command,
        setup: Setup,
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
        match setup.patch {
            Patch::None => {}
            Patch::CountAll => {
                command.env("PADDING_FUNCTION", "all");
            }
            Patch::Pad(function, iterations) => {
                shared.set_iterations(iterations)?;
                command.env("PADDING_FUNCTION", format!("{:x}", function.offset));
            }
        }
        if setup.timed {
            let (begin, end) =
                self.latency.as_ref().context("the catalogue does not say where its requests begin")?;
            command.env("PADDING_BEGIN", format!("{:x}", begin.offset));
            command.env("PADDING_END", format!("{:x}", end.offset));
        }
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut running =
            Running { child, shared, clients: Vec::new(), traffic: None, timed: setup.timed, stop, log };
        running.until("it was not patched", || shared.is_ready())?;
        if let Load::Requests { clients, requests, .. } = self.program.load {
            let socket = shared.folder().join("socket");
            match setup.arrivals {
                Arrivals::Closed => {
                    for (stream, number) in running.connect(&socket, clients)?.into_iter().zip(0..) {
                        let stop = running.stop.clone();
                        running.clients.push(thread::spawn(move || client(stream, requests, number, &stop)));
                    }
                }
                Arrivals::Open { rate, connections } => {
                    let streams = running.connect(&socket, open::CONNECTIONS)?;
                    let (stop, traffic) = (running.stop.clone(), Arc::<Traffic>::default());
                    running.traffic = Some(traffic.clone());
                    let seed = fastrand::u64(..);
                    running.clients.push(thread::spawn(move || {
                        open::ask(streams, requests, rate, connections, seed, &traffic, &stop)
                    }));
                }
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

    /// So many connections to its socket, as soon as it listens.
    fn connect(&mut self, socket: &Path, number: usize) -> Result<Vec<UnixStream>> {
        let mut streams = Vec::new();
        self.until("it does not listen", || {
            while streams.len() < number {
                let Ok(stream) = UnixStream::connect(socket) else { return Ok(false) };
                streams.push(stream);
            }
            Ok(true)
        })?;
        Ok(streams)
    }

    /// How far it is, at the next moment at which no request is under way if they are timed.
    fn now(&self) -> Result<Moment> {
        let requests = if self.timed { self.shared.requests()? } else { Requests::default() };
        Ok(Moment { requests, ..self.at_once()? })
    }

    /// How far it is at this moment, except for the times of requests; also after its end.
    pub fn at_once(&self) -> Result<Moment> {
        let came = self.traffic.as_ref().map(|traffic| traffic.came.load(Ordering::Relaxed));
        Ok(Moment {
            at: Instant::now(),
            progress: self.shared.progress()?,
            came,
            requests: Requests::default(),
        })
    }

    /// What happens from now on for so many seconds.
    pub fn measure(&mut self, seconds: f64) -> Result<Stretch> {
        let begin = self.now()?;
        let busy = cpu_time(self.child.id())?;
        thread::sleep(Duration::from_secs_f64(seconds));
        if let Some(status) = self.child.try_wait()? {
            bail!("it ended early ({status}), saying: {}", said(&self.log));
        }
        let end = self.now()?;
        let busy = cpu_time(self.child.id())?.saturating_sub(busy);
        Ok(Stretch { busy, ..Stretch::between(begin, end)? })
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
fn client(stream: UnixStream, requests: &[Request], seed: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut connection = Connection::new(stream);
    while !stop.load(Ordering::Relaxed) {
        connection.ask(requests, &mut random)?;
        while !connection.hear()? {}
    }
    Ok(())
}

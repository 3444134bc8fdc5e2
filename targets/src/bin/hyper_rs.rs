//! hyper_rs: an HTTP server that does A (0.4 ms) and then B (0.6 ms) for each request of another process.
//!
//! ```text
//! open=0       a closed loop: each client waits for its answer and thinks (think_ms, exponential) before it asks again
//! open=1       an open loop: requests come every gap_ms (exponential), to the clients' connections in turn, whatever
//!              is answered
//!
//! clients=N    connections, which are kept (8)
//! workers=N    threads of the server (1); one is the main thread, and the program has no other
//! ```
//!
//! Answer: as for `c/world.c`. In an open loop 0 for both as long as the server has idle time; in a closed loop the
//! work's share of the clients' rounds, less what they wait for each other. It also prints the inverse of the mean time
//! from the beginning of a "request" to its end, of which A is 40 % and B is 60 % (with more workers as long as there
//! are CPUs for them).

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::env;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, exit};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use targets::run::{Arguments, Run};
use targets::work;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

#[expect(non_snake_case)]
#[inline(never)]
fn A(iterations: u64) {
    work!(iterations);
}

#[expect(non_snake_case)]
#[inline(never)]
fn B(iterations: u64) {
    work!(iterations);
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: world\r\n\r\n";
const ANSWER: &str = "served\n";

struct Server {
    a: u64,
    b: u64,
    run: Run,
    answers: AtomicU64,
    /// What all answers together took, in nanoseconds.
    took: AtomicU64,
}

impl Server {
    fn answer(&self) -> Response<String> {
        let begun = Instant::now();
        whatif::begin!("request");
        A(self.a);
        B(self.b);
        whatif::end!("request");
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        whatif::progress!("served");
        self.run.visited();
        // Relaxed: two statistics, read when the run is over.
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.took.fetch_add(took, Ordering::Relaxed);
        if self.run.over() {
            self.finish();
        }
        Response::new(ANSWER.to_owned())
    }

    /// Prints both rates and ends the process; of several threads, the first one does.
    #[expect(clippy::cast_precision_loss)]
    fn finish(&self) {
        static ONLY: Once = Once::new();
        ONLY.call_once(|| {
            let seconds = self.took.load(Ordering::Relaxed) as f64 / 1e9;
            println!("rate request {:.3}", self.answers.load(Ordering::Relaxed) as f64 / seconds);
            self.run.finish()
        });
    }
}

/// How requests come.
struct Load {
    is_open: bool,
    clients: usize,
    gap: Duration,
    think: Duration,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn main() {
    let arguments = Arguments::of_process();
    let load = Load {
        is_open: arguments.number("open", 0.0) > 0.0,
        clients: arguments.number("clients", 8.0).max(1.0) as usize,
        gap: Duration::from_secs_f64(arguments.number("gap_ms", 2.0) / 1e3),
        think: Duration::from_secs_f64(arguments.number("think_ms", 0.0) / 1e3),
    };
    let port = arguments.number("client", 0.0) as u16;
    if port > 0 {
        ask(&load, port);
    }
    let workers = arguments.number("workers", 1.0) as usize;
    let mut builder = if workers > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let runtime = builder.worker_threads(workers.max(1)).enable_io().build().expect("threads can be had");
    runtime.block_on(serve(arguments, load.clients));
}

/// Serves until the process ends.
async fn serve(arguments: Arguments, clients: usize) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port can be had");
    let port = listener.local_addr().expect("it is bound").port();
    // Executed and not only forked, so that nothing profiles it. It ends with the connections.
    let mut command = Command::new(env::current_exe().expect("a program has a path"));
    let mut client =
        command.args(env::args().skip(1)).arg(format!("client={port}")).spawn().expect("clients start");
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(listener.accept().await.expect("clients connect").0);
    }
    let server: &Server = Box::leak(Box::new(Server {
        a: arguments.iterations("A", 0.4),
        b: arguments.iterations("B", 0.6),
        run: arguments.start("served"),
        answers: AtomicU64::new(0),
        took: AtomicU64::new(0),
    }));
    let serve_one = |connection: tokio::net::TcpStream| {
        connection.set_nodelay(true).expect("it is TCP");
        let answer = move |_: Request<Incoming>| async move { Ok::<_, Infallible>(server.answer()) };
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(connection), service_fn(answer)))
    };
    let served: Vec<_> = connections.into_iter().map(serve_one).collect();
    for connection in served {
        connection.await.expect("no handler panics").expect("clients speak HTTP");
    }
    panic!("the clients have gone: {:?}", client.wait());
}

// The other process from here on.

/// Asks as `load` says.
fn ask(load: &Load, port: u16) -> ! {
    let connect = |_| {
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
        connection.set_nodelay(true).expect("it is TCP");
        connection
    };
    let connections: Vec<TcpStream> = (0..load.clients).map(connect).collect();
    thread::scope(|scope| {
        for connection in &connections {
            scope.spawn(|| {
                // Either ends when the server has gone.
                let _ = if load.is_open { drain(connection) } else { ask_and_think(connection, load.think) };
                exit(0)
            });
        }
        if load.is_open {
            let _ = ask_on_time(&connections, load.gap);
        }
    });
    exit(0)
}

fn ask_and_think(mut connection: &TcpStream, think: Duration) -> io::Result<()> {
    let mut answer = Vec::new();
    loop {
        connection.write_all(REQUEST)?;
        answer.clear();
        while !answer.ends_with(ANSWER.as_bytes()) {
            let mut part = [0; 512];
            match connection.read(&mut part)? {
                0 => return Ok(()),
                length => answer.extend_from_slice(&part[..length]),
            }
        }
        thread::sleep(exponential(think));
    }
}

fn ask_on_time(connections: &[TcpStream], gap: Duration) -> io::Result<()> {
    let mut due = Instant::now();
    for mut connection in connections.iter().cycle() {
        due += exponential(gap);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        connection.write_all(REQUEST)?;
    }
    Ok(())
}

fn drain(mut connection: &TcpStream) -> io::Result<()> {
    io::copy(&mut connection, &mut io::sink()).map(drop)
}

/// Drawn from an exponential distribution.
fn exponential(mean: Duration) -> Duration {
    mean.mul_f64(-(1.0 - fastrand::f64()).ln())
}

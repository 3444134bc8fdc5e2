//! An open loop: requests that come at times of their own, whether earlier ones have been answered or not.
//!
//! A client that waits for an answer before its next request asks later when the server is slow, and so spares it the queue that users
//! would be in. Here the time from one request to the next is drawn from the exponential distribution (a Poisson process), and nothing that the server
//! does changes it. One thread has all the connections ([`Connections`] says which one a request takes); if it is busy, the request waits here,
//! and the next one comes all the same.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::catalogue::Request;
use super::connection::Connection;

/// Enough that a request hardly ever waits for one.
pub const CONNECTIONS: usize = 16;

/// Which connection a request takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connections {
    /// The one that has been idle longest. When requests come on one connection then depends on when it was answered before, as in a closed loop,
    /// though all of them together do not.
    #[default]
    Pool,
    /// One drawn at random, whether it is idle or not: each is a user in an open loop of his own.
    Users,
}

/// How far it has come. The client writes, others read; nothing else depends on the order.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Requests that came, sent or not.
    pub came: AtomicU64,
    /// Requests that were answered.
    pub answered: AtomicU64,
}

/// When `stop` is seen, at the latest.
const LOOK: Duration = Duration::from_millis(20);

/// Asks `rate` times a second, until the server has gone or `stop` is set.
pub fn ask(
    streams: Vec<UnixStream>,
    requests: &[Request],
    rate: f64,
    kind: Connections,
    seed: u64,
    traffic: &Traffic,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut connections: Vec<Connection> = streams.into_iter().map(Connection::new).collect();
    let mut queue = Queue::new(connections.len());
    let mut next = Instant::now() + gap(rate, &mut random);
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        while next <= now {
            next += gap(rate, &mut random);
            queue.come((kind == Connections::Users).then(|| random.usize(..connections.len())));
            traffic.came.fetch_add(1, Ordering::Relaxed);
        }
        while let Some(index) = queue.serve() {
            connections[index].ask(requests, &mut random)?;
        }
        for index in ready(&connections, next.saturating_duration_since(Instant::now()).min(LOOK))? {
            if connections[index].hear()? {
                queue.leave(index);
                traffic.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// The time to the next request.
fn gap(rate: f64, random: &mut fastrand::Rng) -> Duration {
    // 1 − u is never 0.
    Duration::from_secs_f64(-(1.0 - random.f64()).ln() / rate)
}

/// Those on which something has come within `timeout`.
fn ready(connections: &[Connection], timeout: Duration) -> io::Result<Vec<usize>> {
    let mut polled: Vec<PollFd> =
        connections.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled
        .iter()
        .enumerate()
        .filter(|(_, one)| !one.revents().is_empty())
        .map(|(index, _)| index)
        .collect())
}

/// Where requests wait, and connections.
#[derive(Debug)]
struct Queue {
    /// Idle connections, the longest first.
    idle: VecDeque<usize>,
    /// Requests that have no connection yet, and may take any.
    waiting: u64,
    /// Requests that wait for a certain connection, by connection.
    waiting_for: Vec<u64>,
}

impl Queue {
    fn new(connections: usize) -> Self {
        Self { idle: (0..connections).collect(), waiting: 0, waiting_for: vec![0; connections] }
    }

    /// A request comes, on a certain connection or any.
    fn come(&mut self, connection: Option<usize>) {
        *connection.map_or(&mut self.waiting, |connection| &mut self.waiting_for[connection]) += 1;
    }

    /// The connection that the next request takes, if there are both.
    fn serve(&mut self) -> Option<usize> {
        let wanted = |connection: &usize| self.waiting > 0 || self.waiting_for[*connection] > 0;
        let connection = self.idle.remove(self.idle.iter().position(wanted)?)?;
        let own = &mut self.waiting_for[connection];
        *(if *own > 0 { own } else { &mut self.waiting }) -= 1;
        Some(connection)
    }

    /// The request on a connection has been answered.
    fn leave(&mut self, connection: usize) {
        self.idle.push_back(connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential() {
        let mut random = fastrand::Rng::with_seed(5);
        let gaps: Vec<f64> = (0..100_000).map(|_| gap(2000.0, &mut random).as_secs_f64() * 2000.0).collect();
        let mean_of = |power: i32| gaps.iter().map(|gap| gap.powi(power)).sum::<f64>() / 1e5;
        assert!((mean_of(1) - 1.0).abs() < 0.02, "{}", mean_of(1));
        // Its variance is the square of the mean.
        assert!((mean_of(2) - 2.0).abs() < 0.1, "{}", mean_of(2));
    }

    #[test]
    fn the_connection_that_has_been_idle_longest_is_taken() {
        let mut queue = Queue::new(2);
        assert_eq!(queue.serve(), None, "no request has come");
        for _ in 0..4 {
            queue.come(None);
        }
        assert_eq!([queue.serve(), queue.serve(), queue.serve()], [Some(0), Some(1), None]);
        queue.leave(1);
        queue.leave(0);
        assert_eq!([queue.serve(), queue.serve(), queue.serve()], [Some(1), Some(0), None]);
    }

    #[test]
    fn a_user_waits_for_his_own_connection() {
        let mut queue = Queue::new(3);
        for connection in [1, 1, 2] {
            queue.come(Some(connection));
        }
        assert_eq!([queue.serve(), queue.serve(), queue.serve()], [Some(1), Some(2), None]);
        queue.leave(2);
        assert_eq!(queue.serve(), None);
        queue.leave(1);
        assert_eq!([queue.serve(), queue.serve()], [Some(1), None]);
    }

    #[test]
    fn all_requests_are_answered() {
        use std::io::{Read, Write};
        const REQUESTS: &[Request] = &[Request { text: "ping {key}\n", answer_ends: "pong\n" }];
        let (clients, servers): (Vec<_>, Vec<_>) = (0..3).map(|_| UnixStream::pair().unwrap()).unzip();
        let (traffic, stop) = (Traffic::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for mut server in servers {
                scope.spawn(move || {
                    let mut bytes = [0; 64];
                    while let Ok(1..) = server.read(&mut bytes) {
                        // In two parts.
                        for part in ["po", "ng\n"] {
                            let _ = server.write_all(part.as_bytes());
                        }
                    }
                });
            }
            let client =
                scope.spawn(|| ask(clients, REQUESTS, 5000.0, Connections::Users, 1, &traffic, &stop));
            while traffic.answered.load(Ordering::Relaxed) < 50 {
                assert!(!client.is_finished());
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            client.join().unwrap().unwrap();
        });
        let (came, answered) = (traffic.came.into_inner(), traffic.answered.into_inner());
        assert!(answered >= 50 && came >= answered, "{answered} of {came}");
    }
}

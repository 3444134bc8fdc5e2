//! Clients that check every answer.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::servers::{Kind, TEXT};

/// Threads that ask.
const CLIENTS: u64 = 4;
/// Requests of a connection: it should live for some cycles.
const REQUESTS: u64 = 50_000;
/// What a client asks for by turns.
const KEYS: u64 = 500;
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(30);

/// Clients that ask as soon as they are answered, until this is dropped.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    rests: AtomicBool,
    ends: AtomicBool,
    answers: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Load {
    pub fn start(kind: Kind, port: u16) -> Self {
        let shared = Arc::<Shared>::default();
        let client = |number: u64| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                while !shared.ends.load(Relaxed) {
                    if let Err(error) = connection(kind, port, number, &shared) {
                        let mut wrong = shared.wrong.lock().unwrap_or_else(PoisonError::into_inner);
                        wrong.push(format!("{error:#}"));
                        drop(wrong);
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            })
        };
        let threads = (0..CLIENTS).map(client).collect();
        Self { shared, threads }
    }

    /// They stop asking, or go on.
    pub fn rest(&self, rests: bool) {
        self.shared.rests.store(rests, Relaxed);
    }

    pub fn answers(&self) -> u64 {
        self.shared.answers.load(Relaxed)
    }

    /// What was no right answer.
    pub fn wrong(&self) -> Vec<String> {
        self.shared.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn connection(kind: Kind, port: u16, client: u64, shared: &Shared) -> Result<()> {
    let mut stream = connect(kind, port)?;
    for nth in 0..REQUESTS {
        while shared.rests.load(Relaxed) && !shared.ends.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if shared.ends.load(Relaxed) {
            break;
        }
        exchange(kind, &mut stream, client * KEYS + nth % KEYS)?;
        shared.answers.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// One question.
pub fn ask(kind: Kind, port: u16) -> Result<()> {
    exchange(kind, &mut connect(kind, port)?, 0)
}

fn connect(kind: Kind, port: u16) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("connecting")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    if kind == Kind::Postgres {
        // Protocol 3.0, PostgreSQL's documentation, "Message Formats".
        let parameters = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
        let length = (parameters.len() + 4) as u32;
        stream.write_all(&[&length.to_be_bytes()[..], parameters].concat())?;
        rows(&mut stream)?;
    }
    Ok(stream)
}

fn exchange(kind: Kind, stream: &mut TcpStream, number: u64) -> Result<()> {
    let (key, value) = (format!("key-{number}"), format!("{number}").repeat(20));
    let length = value.len();
    match kind {
        Kind::Redis => {
            let asked = format!("SET {key} {value}\r\nGET {key}\r\n");
            expect(stream, &asked, &format!("+OK\r\n${length}\r\n{value}\r\n"))
        }
        Kind::Memcached => {
            let asked = format!("set {key} 0 0 {length}\r\n{value}\r\nget {key}\r\n");
            expect(stream, &asked, &format!("STORED\r\nVALUE {key} 0 {length}\r\n{value}\r\nEND\r\n"))
        }
        Kind::Nginx | Kind::Python | Kind::Java | Kind::Go => {
            stream.write_all(b"GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
            let (head, body) = page(stream)?;
            ensure!(head.starts_with("HTTP/1.1 200") && body == TEXT, "wrong: {head} {body}");
            Ok(())
        }
        Kind::Postgres => {
            let query = format!("select {number} + 1, repeat('{number}', 20)\0");
            let length = (query.len() + 4) as u32;
            stream.write_all(&[b"Q", &length.to_be_bytes()[..], query.as_bytes()].concat())?;
            let is = rows(stream)?;
            let should = vec![vec![(number + 1).to_string(), value]];
            ensure!(is == should, "wrong: {is:?} for {should:?}");
            Ok(())
        }
    }
}

fn expect(stream: &mut TcpStream, asked: &str, should: &str) -> Result<()> {
    stream.write_all(asked.as_bytes())?;
    let mut is = vec![0; should.len()];
    stream.read_exact(&mut is).context("no answer")?;
    ensure!(is == should.as_bytes(), "wrong: {} for {should}", String::from_utf8_lossy(&is));
    Ok(())
}

/// Head and body of a page.
fn page(stream: &mut TcpStream) -> Result<(String, String)> {
    const MOST: usize = 1 << 16;
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    while bytes.len() < MOST {
        let read = stream.read(&mut part).context("no answer")?;
        ensure!(read > 0, "the connection was closed");
        bytes.extend(&part[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.context("no length")? {
            return Ok((head.to_owned(), body.to_owned()));
        }
    }
    bail!("a page without an end")
}

/// The rows of PostgreSQL's answer.
fn rows(stream: &mut TcpStream) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).context("no answer")?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        ensure!((4..1 << 20).contains(&length), "nonsense");
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).context("no answer")?;
        match head[0] {
            b'Z' => return Ok(rows),
            b'E' => bail!("an error: {}", String::from_utf8_lossy(&body)),
            b'D' => {
                let mut rest = body.get(2..).context("nonsense")?;
                let mut row = Vec::new();
                while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                    let length = u32::from_be_bytes(*length) as usize;
                    let (field, behind) = behind.split_at_checked(length).context("nonsense")?;
                    row.push(String::from_utf8_lossy(field).into_owned());
                    rest = behind;
                }
                rows.push(row);
            }
            _ => {}
        }
    }
}

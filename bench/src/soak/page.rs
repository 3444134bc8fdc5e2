//! The page of a run, as browsers and strangers ask for it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ChildStderr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Page {
    /// `127.0.0.1:PORT`.
    host: String,
    /// `token=…`.
    query: String,
}

/// Events that an open page has been told.
pub struct Events(Arc<AtomicU64>);

impl Events {
    pub fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Page {
    /// That which a run says it has; what it says later is thrown away.
    pub fn of(said: ChildStderr) -> Result<Self> {
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let mut before = String::new();
        let address = lines.find_map(|line| {
            before += &format!("\n{line}");
            Some(line.split_once("http://")?.1.to_owned())
        });
        let address =
            address.with_context(|| format!("the run ended without an address of a page:{before}"))?;
        std::thread::spawn(move || lines.for_each(drop));
        let (host, query) = address.split_once("/?").context("an address without a token")?;
        Ok(Self { host: host.to_owned(), query: query.to_owned() })
    }

    fn ask(&self, path: &str, query: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.host)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path}?{query} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host)?;
        Ok(stream)
    }

    fn status(&self, path: &str, query: &str) -> Result<String> {
        let mut answer = String::new();
        self.ask(path, query)?.read_to_string(&mut answer)?;
        Ok(answer.split(' ').nth(1).unwrap_or_default().to_owned())
    }

    /// Asks for the page and for its data.
    pub fn data(&self) -> Result<()> {
        for path in ["/", "/data.json"] {
            let status = self.status(path, &self.query)?;
            ensure!(status == "200", "the page's {path} answers {status}");
        }
        Ok(())
    }

    /// Asks without the token.
    pub fn refused(&self) -> Result<()> {
        let status = self.status("/", "")?;
        ensure!(status == "403", "a stranger is answered {status}");
        Ok(())
    }

    /// Keeps a page open.
    pub fn events(&self) -> Result<Events> {
        let stream = self.ask("/events", &self.query)?;
        let told = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&told);
        std::thread::spawn(move || {
            let lines = BufReader::new(stream).lines().map_while(Result::ok);
            lines.filter(|line| line.starts_with("data: ")).for_each(|_| {
                counter.fetch_add(1, Ordering::Relaxed);
            });
        });
        Ok(Events(told))
    }
}

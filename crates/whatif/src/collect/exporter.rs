//! Exporter: a thread that gives the collector's metrics to programs that ask for them.
//!
//! **Does:** listen, and answer `GET /metrics`. **Does not:** read what connections send: that is `visitors.rs`, with its bounds for their number,
//! size and time. **Constraints:** the collector never waits for it; everything in the text is a sum over the whole machine, and says nothing of
//! which programs run.

use super::exposition::{KIND, Now, text};
use super::metrics::Metrics;
use crate::answer;
use crate::visitors::{Door, Visitors};
use anyhow::{Context as _, Result, bail};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Where the metrics are.
const PATH: &str = "/metrics";
/// The folder is looked through at most that often.
const LOOK: Duration = Duration::from_secs(10);

/// An address as it is typed: a port alone is one of this machine only.
pub fn address(text: &str) -> Result<SocketAddr> {
    let text = text.trim();
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    if let Some(Ok(port)) = text.strip_prefix("localhost:").map(str::parse) {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => bail!(
            "--metrics {text} is no address; give a port (9464: of this machine only), 127.0.0.1:9464 or [::1]:9464"
        ),
    }
}

/// Starts to answer. Returns where.
pub fn start(address: SocketAddr, folder: &Path, metrics: &Arc<Metrics>) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address} for --metrics; choose another port, or end what listens there: ss -ltnp")
    })?;
    listener.set_nonblocking(true).context("cannot listen for --metrics")?;
    let address = listener.local_addr().context("cannot listen for --metrics")?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let desk = Desk {
        metrics: Arc::clone(metrics),
        folder: folder.to_owned(),
        started_unix: since.as_secs() as i64,
        looked: Mutex::new(None),
    };
    let serve = move || {
        let mut visitors = Visitors::new(desk);
        loop {
            // The answer has been given at the door.
            drop(visitors.next(&listener));
        }
    };
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(serve)
        .context("cannot start a thread for --metrics")?;
    Ok(address)
}

/// What answers.
struct Desk {
    metrics: Arc<Metrics>,
    folder: PathBuf,
    started_unix: i64,
    /// How large the database was, and when that was.
    looked: Mutex<Option<(Instant, Size)>>,
}

/// Bytes, and segments.
type Size = (Option<u64>, Option<u64>);

impl Door for Desk {
    fn judge<'a>(&self, head: &'a str) -> Result<(&'a str, &'a str, &'a str), String> {
        let mut words = head.split("\r\n").next().unwrap_or_default().split(' ');
        let (Some(method), Some(url), Some(_)) = (words.next(), words.next(), words.next()) else {
            return Err(answer::refusal(400, "not a request\n"));
        };
        let path = url.split_once('?').map_or(url, |(path, _)| path);
        Err(match (method, path) {
            ("GET", PATH) => self.whole(true),
            ("HEAD", PATH) => self.whole(false),
            (_, PATH) => answer::refusal(405, "metrics can only be read: GET /metrics\n"),
            _ => answer::refusal(404, "the metrics are at /metrics\n"),
        })
    }
}

impl Desk {
    /// The whole answer.
    fn whole(&self, with_text: bool) -> String {
        let (database_bytes, segments) = self.size();
        let now = Now {
            started_unix: self.started_unix,
            own_cpu_ns: kernel::clock::process_cpu_time().0,
            resident: resident(),
            database_bytes,
            segments,
        };
        let text = text(&self.metrics.get(), &now);
        let head = answer::head(200, KIND, Some(text.len()));
        if with_text { head + &text } else { head }
    }

    fn size(&self) -> Size {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        match *looked {
            Some((when, size)) if when.elapsed() < LOOK => size,
            _ => {
                let size = size_of(&self.folder);
                *looked = Some((Instant::now(), size));
                size
            }
        }
    }
}

fn size_of(folder: &Path) -> Size {
    let files = |folder: &Path| -> Option<(u64, u64)> {
        let metadata = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.metadata().ok());
        let files = metadata.filter(std::fs::Metadata::is_file);
        Some(files.fold((0, 0), |(bytes, count), file| (bytes + file.len(), count + 1)))
    };
    let (catalogue, segments) = (files(folder), files(&folder.join("segments")));
    let bytes = catalogue.zip(segments).map(|((catalogue, _), (segments, _))| catalogue + segments);
    // Two files each.
    (bytes, segments.map(|(_, count)| count / 2))
}

fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        for (text, expected) in [
            ("9464", "127.0.0.1:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:9464", "[::1]:9464"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        for text in ["", ":9464", "127.0.0.1", "host:9464", "99999"] {
            assert!(address(text).unwrap_err().to_string().contains("give a port"), "{text}");
        }
    }

    #[test]
    fn metrics_are_read_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("segments")).unwrap();
        for name in ["catalogue.db", "segments/a.stacks.parquet", "segments/a.samples.parquet"] {
            std::fs::write(folder.path().join(name), "1234").unwrap();
        }
        let metrics = Arc::new(Metrics::default());
        metrics.change(|counts| counts.rate_hz = 97.0);
        let address = start("127.0.0.1:0".parse().unwrap(), folder.path(), &metrics).unwrap();
        let ask = |text: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        // Those that say nothing keep no other out.
        let _idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let whole = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, text) = whole.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", text.len())), "{head}");
        for line in ["whatif_rate_hertz 97\n", "whatif_database_bytes 12\n", "whatif_database_segments 1\n"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(ask("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = ask(request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
    }
}

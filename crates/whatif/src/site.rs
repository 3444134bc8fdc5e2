//! Site: a page for this machine only, for those who have the token in its address ([`Pass`]).
//!
//! **Does:** listen, start a browser, and give each request with the token a thread of its own. **Does not:** read what others
//! send: that is `visitors.rs`, whose slots are not those of the page.

use crate::answer;
use crate::head::{self, LONGEST};
use crate::pass::Pass;
use crate::visitors::{Known, PATIENCE, Visitors};
use anyhow::{Context as _, Result};
use controller::embedded;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Programs that open an address in the user's browser, the first that there is.
const BROWSERS: [&str; 4] = ["xdg-open", "sensible-browser", "gio", "firefox"];
/// Requests with the token at a time.
const MOST: usize = 64;
/// How long a browser may take to read where the page is.
const READ_BY: Duration = Duration::from_secs(20);

/// Where the page is, and who may see it.
pub struct Site {
    listener: TcpListener,
    address: String,
    visitors: Visitors<Pass>,
}

impl Site {
    /// Listens on a free port.
    pub fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context(
            "cannot listen on this machine; write the page to a file instead: whatif export --format html -o FILE",
        )?;
        listener.set_nonblocking(true)?;
        let pass = Pass::new(listener.local_addr()?.to_string())?;
        let address = format!("http://{}/?token={}", pass.host, pass.token);
        Ok(Self { listener, address, visitors: Visitors::new(pass) })
    }

    /// What to type into a browser.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Starts a browser, or says that there is none.
    pub fn browse(&self) {
        // All users can see what programs are started with, and no other user may see the token.
        let started = way_in(&self.address).is_ok_and(|way| {
            let started = BROWSERS.iter().any(|browser| {
                let mut command = Command::new(browser);
                if *browser == "gio" {
                    command.arg("open");
                }
                command.arg(&way).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.spawn().is_ok()
            });
            let remove = way.clone();
            let remover = std::thread::Builder::new().name("way in".into()).spawn(move || {
                std::thread::sleep(if started { READ_BY } else { Duration::ZERO });
                let _ = std::fs::remove_file(remove);
            });
            if remover.is_err() {
                // Rather no page than a key that stays.
                let _ = std::fs::remove_file(&way);
            }
            started
        });
        if !started {
            kernel::say!("whatif: no browser could be started; open the address above");
        }
    }

    /// Calls `answer` with the requests that have the token, each in a thread of its own. Does not return.
    pub fn serve(mut self, answer: impl Fn(Request) + Sync) {
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            loop {
                for known in self.visitors.next(&self.listener) {
                    let Ok(request) = Request::new(known) else { continue };
                    let (answer, open) = (&answer, &open);
                    let crowded = open.fetch_add(1, Ordering::Relaxed) >= MOST;
                    let thread = std::thread::Builder::new().name("page of a user".into());
                    let started = thread.spawn_scoped(scope, move || {
                        if crowded {
                            request.refuse(503, "too many pages are open; close some");
                        } else {
                            answer(request);
                        }
                        open.fetch_sub(1, Ordering::Relaxed);
                    });
                    if started.is_err() {
                        open.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
        });
    }
}

/// A file of the user's own that leads to an address.
fn way_in(address: &str) -> io::Result<PathBuf> {
    let folder = embedded::folder().ok_or(io::ErrorKind::NotFound)?;
    let path = folder.join(format!("page-{}.html", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={address}\">"
    )?;
    Ok(path)
}

/// A request from a client that has the token.
pub struct Request {
    pub method: String,
    pub path: String,
    query: String,
    stream: TcpStream,
}

impl Request {
    fn new(Known { method, path, query, stream }: Known) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { method, path, query, stream })
    }

    /// A parameter.
    pub fn parameter(&self, name: &str) -> Option<String> {
        head::parameter(&self.query, name)
    }

    /// Whether the browser no longer waits for the answer.
    pub fn has_gone(&self) -> bool {
        // What was sent behind the head is not read: it does not matter.
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let gone = match self.stream.peek(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        self.stream.set_nonblocking(false).is_err() || gone
    }

    /// Answers. A browser that has gone does not matter.
    pub fn answer(self, kind: &str, text: &str) {
        let _ = respond(self.stream, 200, kind, text);
    }

    /// Answers with an error status and the reason.
    pub fn refuse(self, status: u16, why: &str) {
        let _ = respond(self.stream, status, answer::PLAIN, why);
    }

    /// Begins an answer that goes on: what is written is sent at once.
    pub fn begin(mut self, kind: &str) -> io::Result<TcpStream> {
        self.stream.write_all(answer::head(200, kind, None).as_bytes())?;
        Ok(self.stream)
    }
}

fn respond(mut stream: TcpStream, status: u16, kind: &str, text: &str) -> io::Result<()> {
    stream.write_all(answer::head(status, kind, Some(text.len())).as_bytes())?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    // What was sent and not read would take the answer with it.
    let until = Instant::now() + PATIENCE;
    let mut rest = [0; 1024];
    let mut left = LONGEST;
    while left > 0 {
        let patience = until.saturating_duration_since(Instant::now());
        // No patience at all is an error.
        stream.set_read_timeout(Some(patience))?;
        match stream.read(&mut rest)? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that says `good`.
    struct Served {
        host: String,
        /// A request with the token.
        good: String,
    }

    impl Served {
        fn start() -> Self {
            let site = Site::open().unwrap();
            let host = site.listener.local_addr().unwrap().to_string();
            let (_, path) = site.address().rsplit_once('/').unwrap();
            let good = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            std::thread::spawn(move || site.serve(|request| request.answer("text/plain", "good")));
            Self { host, good }
        }

        fn send(&self, text: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(&self.host).unwrap();
            let _ = stream.write_all(text);
            stream
        }

        /// The status of the answer, and how long it took.
        fn ask(&self, text: &[u8]) -> (Option<u16>, Duration) {
            let begin = Instant::now();
            let mut answer = String::new();
            let _ = self.send(text).read_to_string(&mut answer);
            (answer.split(' ').nth(1).and_then(|status| status.parse().ok()), begin.elapsed())
        }

        fn assert_good(&self, while_: &str) {
            let (status, took) = self.ask(self.good.as_bytes());
            assert!(status == Some(200) && took < PATIENCE, "{while_}: {status:?} after {took:?}");
        }
    }

    #[test]
    fn three_hundred_idle_connections_lock_no_user_out() {
        let served = Served::start();
        let idle = |text: &[u8]| -> Vec<TcpStream> { (0..150).map(|_| served.send(text)).collect() };
        let _silent = idle(b"");
        let _begun = idle(b"GET / HT");
        for _ in 0..10 {
            served.assert_good("idle");
        }
        // Nor do those that were refused and do not go.
        let _refused = idle(b"GET / HTTP/1.1\r\n\r\n");
        served.assert_good("refused");
    }

    #[test]
    fn a_head_has_a_deadline_and_a_length() {
        let served = Served::start();
        let mut drip = served.send(b"GET / HTTP/1.1\r\nX: ");
        let begin = Instant::now();
        // Each byte comes in time; all together do not.
        while drip.write_all(b"x").is_ok() && begin.elapsed() < 4 * PATIENCE {
            served.assert_good("drip");
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = begin.elapsed();
        assert!((PATIENCE..4 * PATIENCE).contains(&took), "{took:?}");

        let endless = [&b"GET / HTTP/1.1\r\n"[..], &b"X: y\r\n".repeat(LONGEST)[..]].concat();
        let mut endless = served.send(&endless);
        let _ = endless.set_read_timeout(Some(4 * PATIENCE));
        let gone = endless.read_to_end(&mut Vec::new());
        assert!(!gone.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "it is not waited for");
        let long = [&b"GET / HTTP/1.1\r\nX: "[..], &[b'x'; LONGEST][..]].concat();
        assert_eq!(served.ask(&long).0, Some(431));
    }

    #[test]
    fn bodies_are_not_read() {
        let served = Served::start();
        let length = "Content-Length: 18446744073709551615\r\n\r\n";
        let stranger = format!("POST / HTTP/1.1\r\nHost: {}\r\n{length}body", served.host);
        let (status, took) = served.ask(stranger.as_bytes());
        assert!(status == Some(403) && took < 4 * PATIENCE, "{status:?} after {took:?}");
        let known = served.good.replace("GET", "POST").replace("\r\n\r\n", &format!("\r\n{length}body"));
        let (status, took) = served.ask(known.as_bytes());
        assert!(status == Some(200) && took < 4 * PATIENCE, "{status:?} after {took:?}");
    }
}

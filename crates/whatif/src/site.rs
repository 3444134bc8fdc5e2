//! A page for this machine only. A user who may not read the recording may not read the page either: its address has a token that
//! cannot be guessed, and a page of another origin that a browser has open cannot ask for it under another name of this host.
//!
//! Requests may come from any user of this machine: nothing but the head of a request is read, and of that not much, nor
//! is it waited for long.

use anyhow::{Context as _, Result};
use controller::embedded;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Programs that open an address in the user's browser, the first that there is.
const BROWSERS: [&str; 4] = ["xdg-open", "sensible-browser", "gio", "firefox"];
/// The longest head of a request.
const LONGEST: usize = 8 << 10;
/// How long the head of a request may take to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time.
const MOST: usize = 64;
/// How long a browser may take to read where the page is.
const READ_BY: Duration = Duration::from_secs(20);

/// Of every answer.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n";

/// Where the page is, and who may see it.
pub struct Site {
    listener: TcpListener,
    visitor: Visitor,
}

impl Site {
    /// Listens on a free port.
    pub fn open() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context(
            "cannot listen on this machine; write the page to a file instead: whatif export --format html -o FILE",
        )?;
        let host = listener.local_addr()?.to_string();
        Ok(Self { listener, visitor: Visitor { host, token: token()? } })
    }

    /// What to type into a browser.
    pub fn address(&self) -> String {
        format!("http://{}/?token={}", self.visitor.host, self.visitor.token)
    }

    /// Starts a browser, or says that there is none.
    pub fn browse(&self) {
        // All users can see what programs are started with, and no other user may see the token.
        let started = way_in(&self.address()).is_ok_and(|way| {
            let started = BROWSERS.iter().any(|browser| {
                let mut command = Command::new(browser);
                if *browser == "gio" {
                    command.arg("open");
                }
                command.arg(&way).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                command.spawn().is_ok()
            });
            std::thread::spawn(move || {
                std::thread::sleep(if started { READ_BY } else { Duration::ZERO });
                let _ = std::fs::remove_file(way);
            });
            started
        });
        if !started {
            eprintln!("whatif: no browser could be started; open the address above");
        }
    }

    /// Calls `answer` with the requests that have the token, each in a thread of its own. Does not return.
    pub fn serve(&self, answer: impl Fn(Request) + Sync) {
        let open = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for stream in self.listener.incoming().flatten() {
                if open.fetch_add(1, Ordering::Relaxed) < MOST {
                    let (answer, open) = (&answer, &open);
                    let thread = std::thread::Builder::new().name("visitor".into());
                    let started = thread.spawn_scoped(scope, move || {
                        if let Some(request) = self.visitor.read(stream) {
                            answer(request);
                        }
                        open.fetch_sub(1, Ordering::Relaxed);
                    });
                    if started.is_ok() {
                        continue;
                    }
                }
                open.fetch_sub(1, Ordering::Relaxed);
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
    /// A parameter.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let value = self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
        Some(decoded(value))
    }

    /// Answers. A browser that has gone does not matter.
    pub fn answer(self, kind: &str, text: &str) {
        let _ = respond(self.stream, 200, kind, text);
    }

    /// Answers with an error status and the reason.
    pub fn refuse(self, status: u16, why: &str) {
        let _ = respond(self.stream, status, "text/plain; charset=utf-8", why);
    }

    /// Begins an answer that goes on: what is written is sent at once.
    pub fn begin(mut self, kind: &str) -> io::Result<TcpStream> {
        self.stream
            .write_all(format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{HEADERS}\r\n").as_bytes())?;
        Ok(self.stream)
    }
}

fn respond(mut stream: TcpStream, status: u16, kind: &str, text: &str) -> io::Result<()> {
    let length = text.len();
    let head =
        format!("HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{HEADERS}\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // What was sent and not read would take the answer with it.
    let mut rest = [0; 1024];
    for _ in 0..LONGEST / rest.len() {
        if stream.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

/// 128 bits that cannot be guessed.
fn token() -> Result<String> {
    let mut bits = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bits));
    read.context("cannot read /dev/urandom, without which the page could not be kept from others")?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Who may see the page.
struct Visitor {
    host: String,
    token: String,
}

impl Visitor {
    /// The request that a connection brings, unless it is refused.
    fn read(&self, mut stream: TcpStream) -> Option<Request> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let mut head = Vec::new();
        let mut piece = [0; 1024];
        let begin = std::time::Instant::now();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
            head.extend_from_slice(&piece[..read]);
            if head.len() > LONGEST || begin.elapsed() > PATIENCE {
                let _ = respond(stream, 431, "text/plain; charset=utf-8", "too long");
                return None;
            }
        }
        let head = String::from_utf8_lossy(&head);
        match self.judge(&head) {
            Ok((method, path, query)) => Some(Request {
                method: method.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                stream,
            }),
            Err((status, why)) => {
                let _ = respond(stream, status, "text/plain; charset=utf-8", why);
                None
            }
        }
    }

    /// Method, path and query of a request; or what is wrong with it.
    fn judge<'a>(&self, head: &'a str) -> Result<(&'a str, &'a str, &'a str), (u16, &'static str)> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(url), Some(_)) = (words.next(), words.next(), words.next()) else {
            return Err((400, "not a request"));
        };
        let header = |line: &'a str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        };
        let mut hosts = lines.filter_map(header);
        if hosts.next() != Some(self.host.as_str()) || hosts.next().is_some() {
            return Err((421, "not under this name"));
        }
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        if !query.split('&').any(|pair| pair.strip_prefix("token=") == Some(self.token.as_str())) {
            return Err((403, "the address that whatif printed has a token"));
        }
        Ok((method, path, query))
    }
}

/// Without `%20` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = (*byte == b'%').then(|| std::str::from_utf8(after.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(coded) => {
                bytes.push(coded);
                rest = &after[2..];
            }
            None => {
                bytes.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_told_the_address_is_answered() {
        let visitor = Visitor { host: "127.0.0.1:81".to_owned(), token: "abc".to_owned() };
        let judged = |host: &str, url: &str| {
            let head = format!("GET {url} HTTP/1.1\r\nAccept: */*\r\n{host}\r\n\r\n");
            visitor.judge(&head).map(|(_, path, _)| path.to_owned()).map_err(|(status, _)| status)
        };
        let here = "Host: 127.0.0.1:81";
        assert_eq!(judged(here, "/?token=abc"), Ok("/".to_owned()));
        assert_eq!(judged("hOST:127.0.0.1:81", "/pin?x=1&token=abc"), Ok("/pin".to_owned()));
        for (host, url, status) in [
            ("Host: evil.example:81", "/?token=abc", 421),
            ("X: y", "/?token=abc", 421),
            ("Host: 127.0.0.1:81\r\nHost: evil.example", "/?token=abc", 421),
            (here, "/", 403),
            (here, "/?token=", 403),
            (here, "/?token=abcd", 403),
        ] {
            assert_eq!(judged(host, url), Err(status), "{host:?} {url}");
        }
        assert_eq!(visitor.judge("nonsense\r\n\r\n"), Err((400, "not a request")));
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one != other && one.len() == 32);
    }

    #[test]
    fn whoever_sends_too_much_or_nothing_keeps_nobody_waiting() {
        let site = Site::open().unwrap();
        let host = site.visitor.host.clone();
        let good = format!("GET /?token={} HTTP/1.1\r\nHost: {host}\r\n\r\n", site.visitor.token);
        std::thread::spawn(move || site.serve(|request| request.answer("text/plain", "good")));
        let ask = |text: &[u8]| {
            let mut stream = TcpStream::connect(&host).unwrap();
            let _ = stream.write_all(text);
            stream
        };
        let _silent: Vec<TcpStream> = (0..10).map(|_| ask(b"GET / HT")).collect();
        let huge =
            ask(&[b"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\nX: ", &[b'x'; LONGEST][..]]
                .concat());
        let body =
            ask(format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 18446744073709551615\r\n\r\n")
                .as_bytes());
        for (mut stream, expected) in [(ask(good.as_bytes()), "200"), (huge, "431"), (body, "403")] {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.split(' ').nth(1) == Some(expected), "{expected}: {answer}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        for (coded, plain) in [
            ("work%20hash.c%3A80", "work hash.c:80"),
            ("a+b", "a b"),
            ("%C3%A9", "é"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(decoded(coded), plain);
        }
    }
}

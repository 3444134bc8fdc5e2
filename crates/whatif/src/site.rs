//! A page for this machine only. Whoever may not read the recording may not read the page either: its address has a token that
//! nobody can guess, and a page of another origin that a browser has open cannot ask for it under another name of this host.

use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{Cursor, Read as _};
use std::process::{Command, Stdio};
use tiny_http::{Header, Request, Response, Server};

/// Programs that open an address in the user's browser, the first that there is.
const BROWSERS: [&str; 4] = ["xdg-open", "sensible-browser", "gio", "firefox"];

/// Where the page is, and who may see it.
pub struct Site {
    server: Server,
    visitor: Visitor,
}

impl Site {
    /// Listens on a free port.
    pub fn open() -> Result<Self> {
        let server = Server::http(("127.0.0.1", 0)).map_err(|error| anyhow::anyhow!("{error}")).context(
            "cannot listen on this machine; write the page to a file instead: whatif export --format html -o FILE",
        )?;
        let address = server.server_addr().to_ip().context("no address to listen on")?;
        let host = format!("127.0.0.1:{}", address.port());
        Ok(Self { server, visitor: Visitor { host, token: token()? } })
    }

    /// What to type into a browser.
    pub fn address(&self) -> String {
        format!("http://{}/?token={}", self.visitor.host, self.visitor.token)
    }

    /// Starts a browser, or says that there is none.
    pub fn browse(&self) {
        let address = self.address();
        let started = BROWSERS.iter().any(|browser| {
            let mut command = Command::new(browser);
            if *browser == "gio" {
                command.arg("open");
            }
            command.arg(&address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().is_ok()
        });
        if !started {
            eprintln!("whatif: no browser could be started; open the address above");
        }
    }

    /// The next request of somebody who may ask; others are refused.
    pub fn next(&self) -> Option<Request> {
        loop {
            let request = self.server.recv().ok()?;
            let host = request.headers().iter().find(|header| header.field.equiv("Host"));
            match self.visitor.judge(host.map(|header| header.value.as_str()), request.url()) {
                Ok(()) => return Some(request),
                Err((status, why)) => refuse(request, status, why),
            }
        }
    }
}

/// What is asked for, without the part behind it.
pub fn path(request: &Request) -> &str {
    request.url().split('?').next().unwrap_or_default()
}

/// A parameter of a request.
pub fn parameter(request: &Request, name: &str) -> Option<String> {
    let query = request.url().split_once('?')?.1;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(decoded(value))
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

/// Answers a request. A browser that has gone does not matter.
pub fn answer(request: Request, kind: &str, text: &str) {
    let _ = request.respond(with_headers(Response::from_string(text), kind));
}

/// Says why not.
pub fn refuse(request: Request, status: u16, why: &str) {
    let response = Response::from_string(why).with_status_code(status);
    let _ = request.respond(with_headers(response, "text/plain; charset=utf-8"));
}

/// Of every answer.
pub const HEADERS: [(&str, &str); 6] = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

fn with_headers(mut response: Response<Cursor<Vec<u8>>>, kind: &str) -> Response<Cursor<Vec<u8>>> {
    for (field, value) in HEADERS.into_iter().chain([("Content-Type", kind)]) {
        if let Ok(header) = Header::from_bytes(field, value) {
            response.add_header(header);
        }
    }
    response
}

/// 128 bits that nobody can guess.
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
    /// What is wrong with a request, if anything.
    fn judge(&self, host: Option<&str>, url: &str) -> Result<(), (u16, &'static str)> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        if host != Some(self.host.as_str()) {
            return Err((421, "not under this name"));
        }
        if !query.split('&').any(|pair| pair.strip_prefix("token=") == Some(self.token.as_str())) {
            return Err((403, "the address that whatif printed has a token"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_told_the_address_is_answered() {
        let visitor = Visitor { host: "127.0.0.1:81".to_owned(), token: "abc".to_owned() };
        let judged = |host, url| visitor.judge(host, url).map_err(|(status, _)| status);
        let here = Some("127.0.0.1:81");
        assert_eq!(judged(here, "/?token=abc"), Ok(()));
        assert_eq!(judged(here, "/pin?x=1&token=abc"), Ok(()));
        for (host, url, status) in [
            (Some("evil.example:81"), "/?token=abc", 421),
            (None, "/?token=abc", 421),
            (here, "/", 403),
            (here, "/?token=", 403),
            (here, "/?token=abcd", 403),
        ] {
            assert_eq!(judged(host, url), Err(status), "{host:?} {url}");
        }
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one != other && one.len() == 32);
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

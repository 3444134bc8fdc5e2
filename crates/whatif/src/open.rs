//! `whatif open`: the report in a browser.
//!
//! **Does:** serve one page to this machine only. Whoever may not read the recording may not read the page either: the address
//! has a token that nobody can guess, and a page of another origin that a browser has open cannot ask for it under another
//! name of this host. **Does not:** send anything anywhere.

use crate::{cli, show};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};
use tiny_http::{Header, Request, Response, Server};

/// Programs that open an address in the user's browser, the first that there is.
const BROWSERS: [&str; 4] = ["xdg-open", "sensible-browser", "gio", "firefox"];

/// `whatif open`. Ends with Ctrl-C.
pub fn open(args: &cli::Open) -> Result<()> {
    let path = show::recording(args.file.as_deref())?;
    let page = report::html::render(&show::load(&path)?);
    let server = Server::http(("127.0.0.1", 0))
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context("cannot listen on this machine; write the page to a file instead: whatif export --format html -o FILE")?;
    let port =
        server.server_addr().to_ip().map(|address| address.port()).context("no address to listen on")?;
    let visitor = Visitor { host: format!("127.0.0.1:{port}"), token: token()? };
    let address = format!("http://{}/?token={}", visitor.host, visitor.token);
    show::print(&format!("{address}\n"))?;
    eprintln!("whatif: showing {} there, to this machine only, until Ctrl-C", path.display());
    if !args.no_browser && !browse(&address) {
        eprintln!("whatif: no browser could be started; open the address above");
    }
    for request in server.incoming_requests() {
        let answer = visitor.answer(&request, &page);
        // A browser that has gone does not matter.
        let _ = request.respond(answer);
    }
    Ok(())
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
    fn answer(&self, request: &Request, page: &str) -> Response<std::io::Cursor<Vec<u8>>> {
        let host = request.headers().iter().find(|header| header.field.equiv("Host"));
        let host = host.map(|header| header.value.as_str());
        match self.judge(host, request.url(), request.method() == &tiny_http::Method::Get) {
            Ok(()) => with_headers(Response::from_string(page), "text/html; charset=utf-8"),
            Err((status, why)) => {
                with_headers(Response::from_string(why).with_status_code(status), "text/plain; charset=utf-8")
            }
        }
    }

    /// What is wrong with a request, if anything.
    fn judge(&self, host: Option<&str>, url: &str, is_get: bool) -> Result<(), (u16, &'static str)> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        if host != Some(self.host.as_str()) {
            return Err((421, "not under this name"));
        }
        if !query.split('&').any(|pair| pair.strip_prefix("token=") == Some(self.token.as_str())) {
            return Err((403, "the address that whatif printed has a token"));
        }
        if !is_get {
            return Err((405, "there is only something to read"));
        }
        if path == "/" { Ok(()) } else { Err((404, "there is one page")) }
    }
}

fn with_headers(
    mut response: Response<std::io::Cursor<Vec<u8>>>,
    kind: &str,
) -> Response<std::io::Cursor<Vec<u8>>> {
    let headers = [
        ("Content-Type", kind),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ];
    for (field, value) in headers {
        if let Ok(header) = Header::from_bytes(field, value) {
            response.add_header(header);
        }
    }
    response
}

/// Starts a browser; whether one could be started.
fn browse(address: &str) -> bool {
    BROWSERS.iter().any(|browser| {
        let mut command = Command::new(browser);
        if *browser == "gio" {
            command.arg("open");
        }
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_told_the_address_sees_the_page() {
        let visitor = Visitor { host: "127.0.0.1:81".to_owned(), token: "abc".to_owned() };
        let judged = |host, url, is_get| visitor.judge(host, url, is_get).map_err(|(status, _)| status);
        let here = Some("127.0.0.1:81");
        assert_eq!(judged(here, "/?token=abc", true), Ok(()));
        assert_eq!(judged(here, "/?x=1&token=abc", true), Ok(()));
        for (host, url, is_get, status) in [
            (Some("evil.example:81"), "/?token=abc", true, 421),
            (None, "/?token=abc", true, 421),
            (here, "/", true, 403),
            (here, "/?token=", true, 403),
            (here, "/?token=abcd", true, 403),
            (here, "/?token=abc", false, 405),
            (here, "/etc/passwd?token=abc", true, 404),
        ] {
            assert_eq!(judged(host, url, is_get), Err(status), "{host:?} {url}");
        }
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one != other && one.len() == 32);
    }
}

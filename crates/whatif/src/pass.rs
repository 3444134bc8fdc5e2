//! Pass: what a request must show, so that a user who may not read the recording may not read the page either. The token cannot be
//! guessed, and a page of another origin that a browser has open cannot ask under another name of this host. Judges the head of a
//! request; reads nothing.

use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Read as _;

/// Who may see the page.
pub struct Pass {
    /// `127.0.0.1:PORT`.
    pub host: String,
    pub token: String,
}

impl Pass {
    /// With a new token.
    pub fn new(host: String) -> Result<Self> {
        Ok(Self { host, token: token()? })
    }

    /// Method, path and query of a request; or what is wrong with it.
    pub fn judge<'a>(&self, head: &'a str) -> Result<(&'a str, &'a str, &'a str), (u16, &'static str)> {
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

/// 128 bits that cannot be guessed.
fn token() -> Result<String> {
    let mut bits = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bits));
    read.context("cannot read /dev/urandom, without which the page could not be kept from others")?;
    Ok(symbols::hex(&bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_with_the_token_and_the_right_name_are_answered() {
        let pass = Pass { host: "127.0.0.1:81".to_owned(), token: "abc".to_owned() };
        let judged = |host: &str, url: &str| {
            let head = format!("GET {url} HTTP/1.1\r\nAccept: */*\r\n{host}\r\n\r\n");
            pass.judge(&head).map(|(_, path, _)| path.to_owned()).map_err(|(status, _)| status)
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
        assert_eq!(pass.judge("nonsense\r\n\r\n"), Err((400, "not a request")));
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one != other && one.len() == 32);
    }
}

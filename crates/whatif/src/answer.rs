//! Answer: what a browser is sent before the text itself. Does not send anything.

/// Of every answer.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n";

/// What a reason is written in.
pub const PLAIN: &str = "text/plain; charset=utf-8";

/// The head of an answer of `length` bytes; `None`: it goes on until the connection is closed.
pub fn head(status: u16, kind: &str, length: Option<usize>) -> String {
    let word = if status == 200 { "OK" } else { "-" };
    let length = length.map(|length| format!("Content-Length: {length}\r\n")).unwrap_or_default();
    format!("HTTP/1.1 {status} {word}\r\nContent-Type: {kind}\r\n{length}{HEADERS}\r\n")
}

/// A whole answer that says why there is no other.
pub fn refusal(status: u16, why: &str) -> String {
    head(status, PLAIN, Some(why.len())) + why
}

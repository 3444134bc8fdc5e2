//! What a browser, or any other user's program, sends to the page's server.

use crate::head::{Head, LONGEST, State, parameter};
use crate::pass::Pass;

/// A connection as `visitors.rs` reads it, in pieces whose length the first byte says.
pub fn head(bytes: &[u8]) {
    let Some((length, bytes)) = bytes.split_first() else { return };
    let pass = Pass { host: "127.0.0.1:81".to_owned(), token: "abc".to_owned() };
    let mut head = Head::default();
    let mut pieces = bytes.chunks(usize::from(*length).max(1));
    let ended = pieces.find_map(|piece| Some(head.extend(piece)).filter(|state| *state != State::Begun));
    let text = head.text();
    assert!(text.len() <= 3 * (LONGEST + usize::from(u8::MAX)), "no more is kept than a head may be long");
    if ended != Some(State::Complete) {
        return;
    }
    if let Ok((_, path, query)) = pass.judge(&text) {
        assert!(query.contains("token=abc") && text.contains("127.0.0.1:81"), "it has shown the token");
        let pinned = parameter(query, "region").unwrap_or_default();
        assert!(pinned.len() <= 3 * query.len() && !path.contains('?'));
    }
}

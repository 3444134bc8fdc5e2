//! A connection to a server: one request at a time, and its answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::catalogue::Request;

/// As long as any answer.
const ANSWER: usize = 1 << 16;

#[derive(Debug)]
pub struct Connection {
    pub stream: UnixStream,
    /// What has arrived of the answer that is waited for.
    answer: Vec<u8>,
    length: usize,
    /// What the answer ends with.
    ends: &'static str,
}

impl Connection {
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, answer: vec![0; ANSWER], length: 0, ends: "" }
    }

    /// Sends one of `requests`, drawn at random.
    pub fn ask(&mut self, requests: &[Request], random: &mut fastrand::Rng) -> io::Result<()> {
        let request = requests[random.usize(..requests.len())];
        let text = request.text.replace("{key}", &format!("{:05}", random.u32(..10_000)));
        (self.length, self.ends) = (0, request.answer_ends);
        self.stream.write_all(text.as_bytes())
    }

    /// Waits for more of the answer, and says whether that was all. Only the end of what came matters; the parts of one answer
    /// follow one another.
    pub fn hear(&mut self) -> io::Result<bool> {
        match self.stream.read(&mut self.answer[self.length..])? {
            // The server has gone, or says more than any answer has.
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            more => {
                self.length += more;
                Ok(self.answer[..self.length].ends_with(self.ends.as_bytes()))
            }
        }
    }
}

//! Visitors: connections that have not been let in yet ([`Door`]), or were answered at the door.
//!
//! Any user of this machine can make them, so they cost little: one thread serves all, each has a few kilobytes and a deadline for
//! its whole head, and there is room for so many. Where there is none left, a new one takes the place of the oldest one of the
//! address that holds the most. A browser sends its head at once, so it is read before others have pushed it out.
//!
//! Nothing is read but the head of a request. What comes behind it is thrown away, and of that not much.

use crate::answer;
use crate::head::{Head, LONGEST, State};
use crate::pass::Pass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long a visitor may stay: until its head is complete, and then until it has read what it was answered.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Visitors at a time.
const MOST: usize = 128;
/// How long to wait for what the process has none left of: memory, a file descriptor.
const AGAIN: Duration = Duration::from_millis(100);

/// Who is let in.
pub trait Door {
    /// Method, path and query of a request that is let in; or the whole answer to one that is not.
    fn judge<'a>(&self, head: &'a str) -> Result<(&'a str, &'a str, &'a str), String>;
}

impl Door for Pass {
    fn judge<'a>(&self, head: &'a str) -> Result<(&'a str, &'a str, &'a str), String> {
        Pass::judge(self, head).map_err(|(status, why)| answer::refusal(status, why))
    }
}

/// What has been let in, and so is no visitor any longer.
pub struct Known {
    pub method: String,
    pub path: String,
    pub query: String,
    pub stream: TcpStream,
}

struct Visitor {
    stream: TcpStream,
    address: IpAddr,
    until: Instant,
    head: Head,
    /// How much more is thrown away, once it was answered: as much as a head may be long.
    answered: Option<usize>,
}

/// What became of a visitor.
enum Fate {
    Stays(Visitor),
    Known(Known),
    Gone,
}

pub struct Visitors<D> {
    door: D,
    /// The oldest first.
    all: Vec<Visitor>,
}

impl<D: Door> Visitors<D> {
    pub fn new(door: D) -> Self {
        Self { door, all: Vec::new() }
    }

    /// Waits for something to happen. Returns those that have been let in meanwhile. `listener` does not block.
    pub fn next(&mut self, listener: &TcpListener) -> Vec<Known> {
        let patience = self.all.iter().map(|visitor| visitor.until).min();
        let patience = patience.map(|until| until.saturating_duration_since(Instant::now()));
        let ready = self.wait(listener, patience);
        let now = Instant::now();
        let mut known = Vec::new();
        let mut stay = Vec::with_capacity(MOST);
        for (visitor, ready) in std::mem::take(&mut self.all).into_iter().zip(ready) {
            let fate = if ready { visitor.hear(&self.door) } else { Fate::Stays(visitor) };
            match fate {
                Fate::Stays(visitor) if visitor.until > now => stay.push(visitor),
                Fate::Known(one) => known.push(one),
                Fate::Stays(_) | Fate::Gone => {}
            }
        }
        self.all = stay;
        // The others are looked at again after so many.
        for _ in 0..MOST {
            match listener.accept() {
                Ok((stream, address)) => {
                    let until = Instant::now() + PATIENCE;
                    let (address, head) = (address.ip(), Head::default());
                    let visitor = Visitor { stream, address, until, head, answered: None };
                    match visitor.enter().map(|visitor| visitor.hear(&self.door)) {
                        Ok(Fate::Stays(visitor)) => self.admit(visitor),
                        Ok(Fate::Known(one)) => known.push(one),
                        Ok(Fate::Gone) | Err(_) => {}
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => break,
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                // No file descriptor is left, for example.
                Err(_) => {
                    if self.all.is_empty() && known.is_empty() {
                        std::thread::sleep(AGAIN);
                    }
                    self.push_out();
                    break;
                }
            }
        }
        known
    }

    /// Whether each visitor has sent something.
    fn wait(&self, listener: &TcpListener, patience: Option<Duration>) -> Vec<bool> {
        let mut files = vec![PollFd::new(listener, PollFlags::IN)];
        files.extend(self.all.iter().map(|visitor| PollFd::new(&visitor.stream, PollFlags::IN)));
        // A millisecond more, so that the deadline is behind us then.
        let patience = patience.map(|patience| patience + Duration::from_millis(1));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        if let Err(error) = poll(&mut files, patience.as_ref()) {
            if error != Errno::INTR {
                std::thread::sleep(AGAIN);
            }
            return vec![false; self.all.len()];
        }
        files[1..].iter().map(|file| !file.revents().is_empty()).collect()
    }

    fn admit(&mut self, visitor: Visitor) {
        if self.all.len() >= MOST {
            self.push_out();
        }
        self.all.push(visitor);
    }

    /// Closes the oldest connection of the address that has the most.
    fn push_out(&mut self) {
        let mut held: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.all.iter().for_each(|visitor| *held.entry(visitor.address).or_default() += 1);
        let most = held.into_iter().max_by_key(|(_, count)| *count);
        let oldest =
            self.all.iter().position(|visitor| most.is_some_and(|(address, _)| visitor.address == address));
        if let Some(oldest) = oldest {
            self.all.remove(oldest);
        }
    }
}

impl Visitor {
    fn enter(self) -> io::Result<Self> {
        self.stream.set_nonblocking(true)?;
        Ok(self)
    }

    /// Gives a whole answer, such as why there is no other. The connection stays for a while: what was sent and not read would take
    /// the answer with it.
    fn answer(mut self, text: &str) -> Fate {
        let said = self.stream.write_all(text.as_bytes());
        match said.and_then(|()| self.stream.shutdown(Shutdown::Write)) {
            Ok(()) => Fate::Stays(Visitor { answered: Some(LONGEST), head: Head::default(), ..self }),
            Err(_) => Fate::Gone,
        }
    }

    /// Reads what it has sent so far.
    fn hear(mut self, door: &impl Door) -> Fate {
        let mut piece = [0; 1024];
        loop {
            let read = match self.stream.read(&mut piece) {
                Ok(0) => return Fate::Gone,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Stays(self),
                Err(_) => return Fate::Gone,
            };
            if let Some(left) = &mut self.answered {
                if read > *left {
                    return Fate::Gone;
                }
                *left -= read;
                continue;
            }
            let fate = match self.head.extend(&piece[..read]) {
                State::Begun => continue,
                State::Complete => self.admit(door),
                State::TooLong => self.answer(&answer::refusal(431, "too long")),
            };
            match fate {
                Fate::Stays(answered) => self = answered,
                other => return other,
            }
        }
    }

    /// Its head is complete.
    fn admit(self, door: &impl Door) -> Fate {
        let head = self.head.text();
        match door.judge(&head) {
            Ok((method, path, query)) => Fate::Known(Known {
                method: method.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                stream: self.stream,
            }),
            Err(answer) => self.answer(&answer),
        }
    }
}

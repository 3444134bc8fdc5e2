//! Standard input of a program that is run several times: each run of it is to read the same. And whether its output goes to a terminal.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, SeekFrom, fstat, major, minor, seek};
use std::io::{stdin, stdout};
use std::path::PathBuf;

/// What each run finds on its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file that can be read again, from here.
    File {
        /// In bytes.
        from: u64,
    },
    /// What comes through a pipe or a socket comes only once.
    Once {
        /// There was something to read before the first run.
        waited: bool,
    },
    /// Nothing, or what is not ours to tell: a terminal, `/dev/null`, a closed descriptor, a pipe at its end.
    Other,
}

impl Input {
    /// That of this process, which programs inherit.
    pub fn own() -> Self {
        let Ok(status) = fstat(stdin()) else { return Self::Other };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => match seek(stdin(), SeekFrom::Current(0)) {
                Ok(from) => Self::File { from },
                Err(_) => Self::Other,
            },
            FileType::Fifo | FileType::Socket => match polled() {
                events if is_at_its_end(events) => Self::Other,
                events => Self::Once { waited: events.contains(PollFlags::IN) },
            },
            _ => Self::Other,
        }
    }

    /// Another run is to read the same.
    pub fn again(self) -> Again {
        match self {
            Self::File { from } if seek(stdin(), SeekFrom::Start(from)).is_err() => Again::Not,
            Self::Once { waited } if is_at_its_end(polled()) => {
                if waited {
                    Again::Not
                } else {
                    Again::Perhaps
                }
            }
            _ => Again::Same,
        }
    }
}

/// Whether another run reads the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It does, as far as is known.
    Same,
    /// Not if the program reads its input: that has come to its end, and nothing tells whether anything was read.
    Perhaps,
    /// It does not: what there was has been read.
    Not,
}

/// What there is of a pipe or a socket.
fn polled() -> PollFlags {
    let stdin = stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).map_or(PollFlags::empty(), |_| polled[0].revents())
}

/// Whether it is empty, and nothing can come any more.
fn is_at_its_end(polled: PollFlags) -> bool {
    polled.contains(PollFlags::HUP) && !polled.contains(PollFlags::IN)
}

/// The file on our standard input, if it is one and has a name.
pub fn file() -> Option<PathBuf> {
    matches!(Input::own(), Input::File { .. })
        .then(|| std::fs::read_link("/proc/self/fd/0").ok().filter(|path| path.is_file()))
        .flatten()
}

/// Whether what the program writes goes into a file, or nowhere: it may be too much for a terminal.
pub fn output_is_for_a_file() -> bool {
    /// `/dev/null` on Linux.
    const NULL: (u32, u32) = (1, 3);
    let Ok(status) = fstat(stdout()) else { return false };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => true,
        FileType::CharacterDevice => (major(status.st_rdev), minor(status.st_rdev)) == NULL,
        _ => false,
    }
}

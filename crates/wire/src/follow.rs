//! Follow: what a program that is followed or profiled says to the controller before it executes another one, and the answer. They go
//! through a socket, so that a process under another user, or in another namespace, has nothing to open.
//!
//! The request is a [`Request`], the path, the value of `LD_PRELOAD` in the new environment and the value of `PATH`; the answer is a
//! [`Verdict`] and the beginning of the value that `LD_PRELOAD` is to have. A message is sent in one piece (`SOCK_SEQPACKET`).
//!
//! After [`Verdict::Joins`] the connection closes by itself when the program has been executed; [`FAILED`] comes before if it was not.

/// What comes before the socket in [`REGION_VARIABLE`](crate::REGION_VARIABLE), `@NAME:TOKEN`. Before that is the number of a descriptor, where
/// the program is profiled; and, where it is not the first one, [`ACCOUNT`] and the delay account that it begins with, and [`ACCOUNT`] and the number of the slot that the thread had
/// which has executed it, if it had one.
pub const MARK: u8 = b'@';
/// What comes before the bits of the account with which an executed program begins, in decimal digits.
pub const ACCOUNT: u8 = b',';
/// The longest value that names a socket, without what comes before it.
pub const LONGEST_VARIABLE: usize = 96;
/// The characters of a token, which says that a request comes from what the controller has started.
pub const TOKEN: usize = 32;
/// The longest answer.
pub const LONGEST_ANSWER: usize = 2048;
/// The longest request: a path, `LD_PRELOAD` and `PATH`, each of them no longer than [`LONGEST_PART`].
pub const LONGEST_REQUEST: usize = Request::SIZE + 3 * LONGEST_PART;
/// The longest part of a request. A longer one is not followed.
pub const LONGEST_PART: usize = 4096;
/// The message that what was to be executed was not.
pub const FAILED: u8 = b'-';
/// [`Request::folder`] for the working directory (`AT_FDCWD`).
pub const WORKING_DIRECTORY: i32 = -100;

/// How a program is found and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Way {
    /// The calling process becomes the program; the path is one.
    Executes = 0,
    /// The same; a path without a slash is a name that is looked for in `PATH`.
    Searches = 1,
    /// A child of the calling process becomes the program.
    Spawns = 2,
    /// The same, looked for in `PATH`.
    SpawnsFound = 3,
}

impl Way {
    const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Executes,
            1 => Self::Searches,
            2 => Self::Spawns,
            3 => Self::SpawnsFound,
            _ => return None,
        })
    }

    /// Whether a name without a slash is looked for in `PATH`.
    #[must_use]
    pub const fn searches(self) -> bool {
        matches!(self, Self::Searches | Self::SpawnsFound)
    }

    /// Whether the program becomes another process than the one that asks.
    #[must_use]
    pub const fn is_another_process(self) -> bool {
        matches!(self, Self::Spawns | Self::SpawnsFound)
    }
}

/// The beginning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the controller told.
    pub token: [u8; TOKEN],
    /// How the program is found and started.
    pub way: Way,
    /// The descriptor that a relative path begins at, or [`WORKING_DIRECTORY`]. With an empty path the file itself.
    pub folder: i32,
    /// Bytes of the path.
    pub path: u32,
    /// Bytes of `LD_PRELOAD`; zero if there is none.
    pub preload: u32,
    /// Bytes of `PATH`, if it is needed.
    pub search: u32,
}

impl Request {
    /// Bytes of this part.
    pub const SIZE: usize = TOKEN + 5 * 4;

    /// As it is sent.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let numbers = [self.way as u32, self.folder.cast_unsigned(), self.path, self.preload, self.search];
        let mut bytes = [0; Self::SIZE];
        bytes[..TOKEN].copy_from_slice(&self.token);
        for (place, number) in bytes[TOKEN..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// A request with its path, `LD_PRELOAD` and `PATH`; none if the message is not one.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<(Self, [&[u8]; 3])> {
        let (head, rest) = message.split_at_checked(Self::SIZE)?;
        let mut numbers = [0; 5];
        for (number, bytes) in numbers.iter_mut().zip(head[TOKEN..].chunks_exact(4)) {
            *number = u32::from_ne_bytes(bytes.try_into().ok()?);
        }
        let [way, folder, path, preload, search] = numbers;
        let token = head[..TOKEN].try_into().ok()?;
        let request =
            Self { token, way: Way::from_number(way)?, folder: folder.cast_signed(), path, preload, search };
        let (path, rest) = rest.split_at_checked(path as usize)?;
        let (preload, rest) = rest.split_at_checked(preload as usize)?;
        (rest.len() == search as usize).then_some((request, [path, preload, rest]))
    }
}

/// What becomes of the program that is about to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// It runs as without us.
    LeftAlone = 0,
    /// It is followed as the one that asks is.
    Followed = 1,
    /// It is profiled, as the first program; a descriptor of its shared memory comes with the answer.
    Joins = 2,
    /// It is profiled as well; a descriptor of the memory that the first program has comes with the answer.
    JoinsToo = 3,
}

impl Verdict {
    /// That of an answer, and the beginning of `LD_PRELOAD`.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<(Self, &[u8])> {
        let (first, rest) = message.split_first()?;
        let verdict = match first {
            0 => Self::LeftAlone,
            1 => Self::Followed,
            2 => Self::Joins,
            3 => Self::JoinsToo,
            _ => return None,
        };
        Some((verdict, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_request_is_read_as_it_was_written_and_nothing_else_is_one() {
        let request = Request {
            token: *b"0123456789abcdef0123456789abcdef",
            way: Way::SpawnsFound,
            folder: WORKING_DIRECTORY,
            path: 3,
            preload: 0,
            search: 4,
        };
        let mut message: Vec<u8> = request.bytes().into();
        message.extend_from_slice(b"cat/bin");
        assert_eq!(Request::parse(&message), Some((request, [&b"cat"[..], b"", b"/bin"])));
        for length in 0..message.len() {
            assert_eq!(Request::parse(&message[..length]), None, "{length}");
        }
        message.push(b'x');
        assert_eq!(Request::parse(&message), None, "more than was said");
        message.pop();
        message[TOKEN] = 9;
        assert_eq!(Request::parse(&message), None, "no such way");
    }

    #[test]
    fn verdicts() {
        for verdict in [Verdict::LeftAlone, Verdict::Followed, Verdict::Joins, Verdict::JoinsToo] {
            assert_eq!(Verdict::parse(&[verdict as u8, b'x']), Some((verdict, &b"x"[..])));
        }
        assert_eq!(Verdict::parse(&[]), None);
        assert_eq!(Verdict::parse(&[4]), None);
    }
}

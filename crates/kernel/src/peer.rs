//! Who is at the other end of a local socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// A process that has connected, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its ID as this process sees it; zero if it does not.
    pub pid: u32,
    /// Its user, when it connected.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

/// The process that has connected to this socket.
///
/// # Errors
/// The kernel's: it is no local socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&credentials) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `credentials`, for which any bits are values, and the length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { pid: credentials.pid.cast_unsigned(), user: credentials.uid, group: credentials.gid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one).unwrap().pid, std::process::id());
        assert!(peer(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}

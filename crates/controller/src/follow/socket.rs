//! Socket: where what is followed asks. It has no file, so that it works in other root folders and under other users; who asks has to know
//! the token, which is in the environment of what the controller started, and nowhere else.

use kernel::peer::{Peer, peer};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recv, send, sendmsg, shutdown, socket_with, sockopt,
};
use std::fs::File;
use std::io::{self, IoSlice, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use wire::follow::{LONGEST_REQUEST, Request, TOKEN, Verdict};

/// How long a connection may say nothing: what asks does so at once.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the program may take to be executed, after it was said what becomes of it.
const EXECUTION: Duration = Duration::from_secs(2);

/// A socket that listens.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// `NAME:TOKEN`.
    address: String,
    token: String,
}

impl Socket {
    /// # Errors
    /// The kernel's.
    pub fn open() -> io::Result<Self> {
        let mut random = [0; 24];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let (token, name) = random.split_at(TOKEN / 2);
        let (token, name) = (symbols::hex(token), format!("whatif-{}", symbols::hex(name)));
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&fd, 128)?;
        Ok(Self { fd, address: format!("{name}:{token}"), token })
    }

    /// The value of our variable in the environment of what is followed.
    pub fn variable(&self) -> String {
        format!("{}{}", char::from(wire::follow::MARK), self.address)
    }

    /// The next one who asks; none when the socket was closed.
    pub fn accept(&self) -> Option<Connection> {
        loop {
            match accept_with(&self.fd, SocketFlags::CLOEXEC) {
                Ok(fd) => return Some(Connection(fd)),
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::BADF) => return None,
                // Too many open files, say.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    pub fn close(&self) {
        let _ = shutdown(&self.fd, Shutdown::Both);
    }

    /// Whether a request comes from what we have started.
    pub fn knows(&self, request: &Request) -> bool {
        request.token == self.token.as_bytes()
    }
}

/// One who asks.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Connection {
    pub fn peer(&self) -> Option<Peer> {
        peer(&self.0).ok().filter(|peer| peer.pid != 0)
    }

    /// The message; none if there is none.
    pub fn read<'a>(&self, buffer: &'a mut [u8; LONGEST_REQUEST]) -> Option<&'a [u8]> {
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(PATIENCE)).ok()?;
        let (length, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty()).ok()?;
        buffer.get(..length)
    }

    /// Answers; whether that came through.
    pub fn answer(&self, verdict: Verdict, preload: &[u8], memory: Option<BorrowedFd<'_>>) -> bool {
        let message = [&[verdict as u8], preload].concat();
        let Some(memory) = memory else { return send(&self.0, &message, SendFlags::NOSIGNAL).is_ok() };
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let descriptors = [memory];
        rights.push(SendAncillaryMessage::ScmRights(&descriptors))
            && sendmsg(&self.0, &[IoSlice::new(&message)], &mut rights, SendFlags::NOSIGNAL).is_ok()
    }

    /// Waits until the program is executed; whether it is.
    pub fn is_executed(&self) -> bool {
        let _ = sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, Some(EXECUTION));
        let mut byte = [0];
        // Nothing comes when it was executed, because that closes the connection. (A copy of it in a child of another thread may not close.)
        recv(&self.0, &mut byte, RecvFlags::empty()).map_or(true, |(length, _)| length == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::connect;
    use wire::follow::{WORKING_DIRECTORY, Way};

    fn connected(socket: &Socket) -> OwnedFd {
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let name = socket.address.split(':').next().unwrap();
        connect(&fd, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        fd
    }

    #[test]
    fn a_request_and_its_answer_go_through() {
        let socket = Socket::open().unwrap();
        assert!(socket.variable().len() <= wire::follow::LONGEST_VARIABLE);
        let other = connected(&socket);
        let request = Request {
            token: socket.token.as_bytes().try_into().unwrap(),
            way: Way::Executes,
            folder: WORKING_DIRECTORY,
            path: 0,
            preload: 0,
            search: 0,
        };
        send(&other, &request.bytes(), SendFlags::empty()).unwrap();
        let connection = socket.accept().unwrap();
        assert_eq!(connection.peer().unwrap().pid, std::process::id());
        let mut buffer = [0; LONGEST_REQUEST];
        let (read, _) = Request::parse(connection.read(&mut buffer).unwrap()).unwrap();
        assert!(read == request && socket.knows(&read));
        assert!(!socket.knows(&Request { token: *b"0123456789abcdef0123456789abcdef", ..read }));
        assert!(connection.answer(Verdict::Followed, b"/rt.so", None));
        let mut answer = [0; 64];
        let (length, _) = recv(&other, &mut answer[..], RecvFlags::empty()).unwrap();
        assert_eq!(Verdict::parse(&answer[..length]), Some((Verdict::Followed, &b"/rt.so"[..])));
        drop(other);
        assert!(connection.is_executed());
    }

    #[test]
    fn what_is_not_executed_says_so_and_a_closed_socket_ends_the_waiting() {
        let socket = Socket::open().unwrap();
        let other = connected(&socket);
        send(&other, &[wire::follow::FAILED], SendFlags::empty()).unwrap();
        assert!(!socket.accept().unwrap().is_executed());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| socket.accept().is_none());
            socket.close();
            assert!(waits.join().unwrap());
        });
    }
}

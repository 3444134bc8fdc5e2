//! Descriptors: files that the process gets from us, or that we get from it, and the system calls which that takes.

use super::loader::Loader;
use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::fs::fcntl_get_seals;
use rustix::net::{self, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// System calls, by their numbers.
mod call {
    pub const CLOSE: i64 = 3;
    pub const RECVMSG: i64 = 47;
    pub const SOCKETPAIR: i64 = 53;
    pub const MEMFD_CREATE: i64 = 319;
}

impl Loader {
    /// A new file in memory, which the process has open as well; and its number there.
    pub(super) fn new_file(&mut self, name: &str, flags: &[u64]) -> Result<(File, u64)> {
        self.memory.write(self.room, &[name.as_bytes(), b"\0"].concat())?;
        let room = self.room;
        let mut result = Err(anyhow!("there are no flags"));
        for flags in flags {
            result = self.system_call(call::MEMFD_CREATE, [room, *flags, 0, 0, 0, 0]);
            if result.is_ok() {
                break;
            }
        }
        let number = result.context("it cannot create a file in memory (memfd_create)")?;
        // Only files in memory have seals.
        let taken = self.take_from(number).and_then(|file| Ok(fcntl_get_seals(&file).map(|_| file)?));
        match taken {
            Ok(file) => Ok((file.into(), number)),
            Err(error) => {
                let _ = self.close(number);
                Err(error.context("its file in memory cannot be taken over (pidfd_getfd, Linux 5.6)"))
            }
        }
    }

    /// A file that it has open. Not opened anew: with our rights, that might be one which it may only read.
    fn take_from(&self, number: u64) -> Result<OwnedFd> {
        let pid = Pid::from_raw(self.pid.cast_signed()).context("there is no such process")?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let number = i32::try_from(number)?;
        Ok(pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?)
    }

    /// Hands an open file to it, through a pair of sockets that it makes: it need not be allowed to open that. The file's number there.
    pub(super) fn hand_over(&mut self, file: BorrowedFd<'_>) -> Result<u64> {
        const UNIX: u64 = 1;
        const STREAM_CLOEXEC: u64 = 0o2_000_001;
        let room = self.room;
        self.system_call(call::SOCKETPAIR, [UNIX, STREAM_CLOEXEC, 0, room, 0, 0])?;
        let pair = self.memory.word(room)?;
        let [own, ours] = [pair & 0xffff_ffff, pair >> 32];
        let stream = self.take_from(ours);
        let received = stream.and_then(|stream| {
            send(&stream, file)?;
            self.receive(own)
        });
        let closed = self.close(ours).and(self.close(own));
        closed.and(received)
    }

    /// Has it receive a file from a socket. The file's number there.
    fn receive(&mut self, socket: u64) -> Result<u64> {
        const CLOEXEC_WITHOUT_WAITING: u64 = 0x4000_0040;
        /// Where in the room one byte is received, what says so, and the file's number with its header.
        const PARTS: [u64; 3] = [64, 96, 128];
        const CONTROL: usize = 24;
        let room = self.room;
        // An `iovec`, and a `msghdr` with it.
        let [byte, vector, control] = PARTS.map(|part| room + part);
        let header = [0, 0, vector, 1, control, CONTROL as u64, 0];
        for (at, words) in [(vector, &[byte, 1][..]), (room, &header)] {
            self.memory.write(at, &words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())?;
        }
        self.memory.write(control, &[0; CONTROL])?;
        self.system_call(call::RECVMSG, [socket, room, CLOEXEC_WITHOUT_WAITING, 0, 0, 0])?;
        let mut told = [0; CONTROL];
        self.memory.read(control, &mut told)?;
        // `SOL_SOCKET`, `SCM_RIGHTS`.
        ensure!(told[8..16] == [1, 0, 0, 0, 1, 0, 0, 0], "it has received none (too many open files?)");
        Ok(u64::from(u32::from_ne_bytes([told[16], told[17], told[18], told[19]])))
    }

    pub(super) fn close(&mut self, number: u64) -> Result<u64> {
        self.system_call(call::CLOSE, [number, 0, 0, 0, 0, 0])
    }
}

/// Sends an open file.
fn send(stream: &OwnedFd, file: BorrowedFd<'_>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut ancillary, files) = (SendAncillaryBuffer::new(&mut space), [file]);
    ensure!(ancillary.push(SendAncillaryMessage::ScmRights(&files)), "there is no room for a descriptor");
    net::sendmsg(stream, &[IoSlice::new(b"w")], &mut ancillary, SendFlags::DONTWAIT)?;
    Ok(())
}

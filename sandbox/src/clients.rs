//! Clients of the servers in `programs`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Says that it is over when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What `work` returns, done while so many clients send requests of `bytes` bytes to the server at `socket`, and each waits for an answer of the same length.
pub fn with_clients<T>(socket: &Path, clients: usize, bytes: usize, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        (0..clients).for_each(|_| drop(scope.spawn(|| ask(socket, bytes, &is_over))));
        work()
    })
}

fn ask(socket: &Path, bytes: usize, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        let Ok(mut connection) = UnixStream::connect(socket) else {
            // The server is not there yet, or not any more.
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let mut bytes = vec![0; bytes];
        while connection.write_all(&bytes).is_ok() && connection.read_exact(&mut bytes).is_ok() {}
    }
}

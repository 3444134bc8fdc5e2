//! Connecting and accepting: who connects wakes who waits for connections, and the other way round where many wait.
//!
//! A connection itself has the channels of its two ends (`socket.rs`); until it is accepted it is the listener's.

use super::descriptors::remember;
use super::interpose;
use super::table::Ptr;
use crate::socket::Name;
use crate::{arrivals, sys};
use core::ffi::{c_int, c_uint};
use wire::channel::Key;
use wire::slot::Slot;

/// Around a call that takes a connection from a listener and returns its descriptor, which may have had another meaning.
fn accepting(slot: &Slot, listener: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let accept = || {
        let fd = call();
        if fd >= 0 {
            remember(fd, None);
        }
        fd
    };
    let fd = super::reading(slot, listener, accept);
    // What comes through the connection was set in motion at that moment, by the clock that the thread has now.
    if fd >= 0 {
        arrivals::accepted(slot, listener, fd);
    }
    fd
}

interpose!(@define accept(fd: c_int, address: Ptr, length: Ptr) -> c_int, slot, original => {
    accepting(slot, fd, || original(fd, address, length))
});

interpose!(@define accept4(fd: c_int, address: Ptr, length: Ptr, flags: c_int) -> c_int, slot, original => {
    accepting(slot, fd, || original(fd, address, length, flags))
});

/// What a call was given as an address of so many bytes; none if it cannot be read, which the kernel says.
fn name_at(address: Ptr, length: c_uint) -> Option<Name> {
    /// `struct sockaddr_storage`.
    const LONGEST: usize = 128;
    let mut bytes = [0; LONGEST];
    let length = length as usize;
    let is_read = length <= LONGEST && sys::read_arguments(address.cast::<u8>(), &mut bytes[..length]);
    Name::new(&bytes[..if is_read { length } else { 0 }])
}

// Whatever became of it, the socket is looked at again when it is used next.
interpose!(@define connect(fd: c_int, address: Ptr, length: c_uint) -> c_int, slot, original => {
    let (name, began, call) = (name_at(address, length), sys::now(), || original(fd, address, length));
    let result = super::on_channel(slot, name.map(Name::listener), Key::room, Key::data, call);
    remember(fd, None);
    arrivals::connected(slot, fd, (name, began));
    result
});

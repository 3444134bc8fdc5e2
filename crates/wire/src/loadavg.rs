//! How many threads of the whole machine want a CPU: both sides ask the kernel, each with its own way to read a file.

/// One thread, in the unit of [`Header::strangers`](crate::Header::strangers).
pub const THREAD: u32 = 1024;

/// Threads that run or wait for a CPU, from the contents of `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206`.
#[must_use]
pub fn runnable(loadavg: &[u8]) -> Option<u32> {
    let field = loadavg.split(|byte| *byte == b' ').nth(3)?;
    let digits = field.split(|byte| *byte == b'/').next()?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_field_is_read() {
        assert_eq!(runnable(b"0.20 0.18 0.12 13/80 11206\n"), Some(13));
        assert_eq!(runnable(b""), None);
        assert_eq!(runnable(b"0.20 0.18 0.12 x/80 1\n"), None);
    }
}

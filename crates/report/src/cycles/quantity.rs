//! Quantities, as people read them.

use serde::Serialize;

/// A share of the samples, 0 to 1 (or a difference of two), with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The share.
    pub value: f64,
    /// The lower end of its interval.
    pub lo: f64,
    /// The upper end of its interval.
    pub hi: f64,
}

impl Share {
    /// Half of the interval, the longer half if they differ.
    pub fn half(&self) -> f64 {
        (self.hi - self.value).max(self.value - self.lo)
    }
}

/// `12.3 %`
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => "–".to_owned(),
        0.0 => "0 %".to_owned(),
        percent if percent > 0.0 && percent < 0.005 => "<0.01 %".to_owned(),
        percent if percent.abs() < 0.095 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
    .replace('-', "−")
}

/// `±0.4`
pub(super) fn plus_minus(half: f64) -> String {
    match half * 100.0 {
        half if !half.is_finite() => "±?".to_owned(),
        half if half < 0.095 => format!("±{half:.2}"),
        half => format!("±{half:.1}"),
    }
}

/// `+1.2 %`
pub(super) fn signed(share: f64) -> String {
    let text = percent(share);
    if share > 0.0 { format!("+{text}") } else { text }
}

/// `12 345 678`, with narrow spaces between the groups.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// `3 h 58 min`, `12.3 s`, `250 ms`: what so many nanoseconds are.
pub(super) fn span(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    let whole = nanos / 1_000_000_000;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    let two = |a: u64, unit: &str, b: u64, smaller: &str| match b {
        0 => format!("{a} {unit}"),
        b => format!("{a} {unit} {b} {smaller}"),
    };
    match whole {
        86_400.. => two(days, "d", hours, "h"),
        3600.. => two(hours, "h", minutes, "min"),
        120.. => two(minutes, "min", whole % 60, "s"),
        10.. => format!("{seconds:.0} s"),
        1.. => format!("{seconds:.1} s"),
        0 => format!("{:.0} ms", seconds * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        for (share, text) in [
            (0.1234, "12.3 %"),
            (0.0, "0 %"),
            (0.0001, "0.01 %"),
            (0.00001, "<0.01 %"),
            (-0.5, "−50.0 %"),
            (1.0, "100.0 %"),
        ] {
            assert_eq!(percent(share), text);
        }
        assert_eq!((signed(0.01), signed(-0.01)), ("+1.0 %".to_owned(), "−1.0 %".to_owned()));
        assert_eq!((plus_minus(0.004), plus_minus(0.0004)), ("±0.4".to_owned(), "±0.04".to_owned()));
        for (number, text) in
            [(0, "0"), (1234, "1234"), (12345, "12\u{202f}345"), (1234567, "1\u{202f}234\u{202f}567")]
        {
            assert_eq!(count(number), text);
        }
        const S: u64 = 1_000_000_000;
        for (nanos, text) in [
            (0, "0 ms"),
            (S / 4, "250 ms"),
            (S * 5 / 2, "2.5 s"),
            (90 * S, "90 s"),
            (125 * S, "2 min 5 s"),
            (3600 * S, "1 h"),
            (14_280 * S, "3 h 58 min"),
            (180_000 * S, "2 d 2 h"),
        ] {
            assert_eq!(span(nanos), text);
        }
    }
}

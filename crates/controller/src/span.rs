//! Lengths of time, as people type them after an option: `15`, `15s`, `2m`, `1h`.

use std::time::Duration;

/// What is right, for messages.
const ADVICE: &str = "give a number of seconds above zero, or with a unit: 15, 15s, 2m, 1h";

/// Understands a length of time above zero; a plain number is one of seconds.
///
/// # Errors
/// What is right, where it is none.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let number: Option<f64> = text.parse().ok();
    let seconds = number.or_else(|| Some(cycles::time::age(text)?.as_secs_f64()));
    let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.filter(|span| !span.is_zero()).ok_or_else(|| ADVICE.to_owned())
}

/// The same for what is counted in whole seconds, from one to an hour.
///
/// # Errors
/// What is right, where it is none.
pub fn whole_seconds(text: &str) -> Result<u32, String> {
    let span = parse(text)?;
    let seconds = u32::try_from(span.as_secs()).ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds
        .filter(|_| span.subsec_nanos() == 0)
        .ok_or_else(|| "give whole seconds, from 1 to 3600, or with a unit: 60, 60s, 10m, 1h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seconds_and_units_are_known() {
        for (text, seconds) in [
            ("15", 15.0),
            ("15s", 15.0),
            ("2m", 120.0),
            (" 1h ", 3600.0),
            ("0.5", 0.5),
            ("1.5s", 1.5),
            ("2min", 120.0),
        ] {
            assert_eq!(parse(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for wrong in ["", "0", "0s", "-1", "NaN", "1e300", "s", "5x", "1h30"] {
            assert!(parse(wrong).unwrap_err().contains("15s, 2m, 1h"), "{wrong}");
        }
        assert_eq!(whole_seconds("10m"), Ok(600));
        for wrong in ["0.5", "2h", "x"] {
            assert!(whole_seconds(wrong).is_err(), "{wrong}");
        }
    }
}

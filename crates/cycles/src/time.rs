//! Times, as people type and read them.

use archive::UnixSeconds;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use profile::Nanos;

/// Shorter spans are always printed with their seconds.
const SHORT: i64 = 600;

/// A time: `now`, an age (`2h`), a local date or time of day, or RFC 3339.
pub fn parse(text: &str, now: &Zoned) -> Result<UnixSeconds, String> {
    let text = text.trim();
    let seconds = |zoned: Zoned| UnixSeconds(zoned.timestamp().as_second());
    if text == "now" {
        return Ok(seconds(now.clone()));
    }
    if let Some(age) = age(text) {
        let age = i64::try_from(age.get() / 1_000_000_000).unwrap_or(i64::MAX);
        return Ok(UnixSeconds(now.timestamp().as_second().saturating_sub(age)));
    }
    if let Ok(exact) = text.parse::<Timestamp>() {
        return Ok(UnixSeconds(exact.as_second()));
    }
    let local = text.parse::<DateTime>().ok().and_then(|local| local.to_zoned(now.time_zone().clone()).ok());
    local.map(seconds).ok_or_else(|| {
        format!(
            "'{text}' is no time; give an age (90s, 30min, 2h, 3d, 1w), a local time ('2026-11-22', '2026-11-22 14:00'), \
             RFC 3339 (2026-11-22T14:00:00Z) or now"
        )
    })
}

/// An age: a number and a unit.
pub fn age(text: &str) -> Option<Nanos> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 7.0 * 86_400.0,
        _ => return None,
    };
    let nanos = number.parse::<f64>().ok()? * seconds * 1e9;
    nanos.is_finite().then(|| Nanos::new(nanos as u64))
}

/// A local time for people: with seconds, unless it is a whole minute.
pub fn local(time: UnixSeconds) -> String {
    local_in(time, &TimeZone::system())
}

fn local_in(time: UnixSeconds, zone: &TimeZone) -> String {
    in_zone(time, zone, if time.0.rem_euclid(60) == 0 { "%Y-%m-%d %H:%M" } else { "%Y-%m-%d %H:%M:%S" })
}

/// A local time for people, with seconds.
pub fn exact(time: UnixSeconds) -> String {
    in_zone(time, &TimeZone::system(), "%Y-%m-%d %H:%M:%S")
}

fn in_zone(UnixSeconds(time): UnixSeconds, zone: &TimeZone, format: &str) -> String {
    match Timestamp::from_second(time) {
        Ok(time) => time.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => time.to_string(),
    }
}

/// From one time to another; if both are on one day, the day is printed once.
pub fn span(from: UnixSeconds, to: UnixSeconds) -> String {
    match to.0.saturating_sub(from.0) {
        ..SHORT => joined(&exact(from), &exact(to)),
        _ => joined(&local(from), &local(to)),
    }
}

fn joined(from: &str, to: &str) -> String {
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((day, _)), Some((other, time))) if day == other => format!("{from} to {time}"),
        _ => format!("{from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ages_local_or_exact() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now = Timestamp::from_second(1_790_000_000).unwrap().to_zoned(zone.clone());
        for (text, expected) in [
            ("now", 1_790_000_000),
            ("0s", 1_790_000_000),
            ("2h", 1_790_000_000 - 7200),
            ("1.5 h", 1_790_000_000 - 5400),
            ("30min", 1_790_000_000 - 1800),
            ("3d", 1_790_000_000 - 3 * 86_400),
            ("1w", 1_790_000_000 - 7 * 86_400),
            ("1970-01-02", 86_400 - 7200),
            ("1970-01-02 03:04", 86_400 + 3600 + 240),
            ("1970-01-02T03:04:05", 86_400 + 3600 + 245),
            ("1970-01-02T03:04:05Z", 86_400 + 3 * 3600 + 245),
            ("1970-01-02T03:04:05+01:00", 86_400 + 2 * 3600 + 245),
        ] {
            assert_eq!(parse(text, &now), Ok(UnixSeconds(expected)), "{text}");
        }
        for text in ["", "yesterday", "2", "h", "2x", "2026-13-01", "-2h"] {
            let error = parse(text, &now).unwrap_err();
            assert!(error.contains("is no time; give an age"), "{text}: {error}");
        }
        assert_eq!(local_in(UnixSeconds(0), &zone), "1970-01-01 02:00");
        assert_eq!(local_in(UnixSeconds(-1), &zone), "1970-01-01 01:59:59");
        assert_eq!(local_in(UnixSeconds(3661), &zone), "1970-01-01 03:01:01");
        assert_eq!(joined("1970-01-01 02:00", "1970-01-01 03:00"), "1970-01-01 02:00 to 03:00");
        assert_eq!(joined("1970-01-01 02:00", "1970-01-02 03:00"), "1970-01-01 02:00 to 1970-01-02 03:00");
    }
}

//! What people type, and profiles that are text.

use profile::condition::Condition;
use profile::{EstimateOptions, Profile};
use symbols::{Scope, ScopeOptions};

/// Profiles of Coz, in both of its formats.
pub fn coz(bytes: &[u8]) {
    let Ok(rows) = profile::coz::read(bytes, "profile.coz") else { return };
    let profile = Profile::new(rows, &EstimateOptions::default());
    report::json::render(&profile);
}

/// `-p`, `--latency` and `--region`, one for each line.
pub fn places(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        let _ = controller::check_places(&[line.to_owned()], &[line.to_owned()], &[line.to_owned()]);
    }
}

/// `--fail-if`, one for each line.
pub fn conditions(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        let _ = line.parse::<Condition>();
    }
}

/// Globs of sources: the first line against all others.
pub fn globs(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let sources = vec![lines.next().unwrap_or_default().to_owned()];
    let Ok(scope) = Scope::new(ScopeOptions { sources, ..ScopeOptions::default() }) else { return };
    lines.for_each(|line| {
        let _ = scope.contains(Some(line));
    });
}

/// Times and ages, one for each line.
pub fn times(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let now =
        jiff::Timestamp::from_second(1_700_000_000).unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    for line in text.lines() {
        let _ = cycles::time::parse(line, &now);
        let _ = cycles::time::age(line);
    }
}

//! Numbers in the report's words.

/// What people call a quantile.
pub(super) fn percentile(share: f64) -> String {
    if share == 0.5 { "median".into() } else { format!("{:.0}th percentile", share * 100.0) }
}

/// With as many decimals as make three digits.
pub(super) fn three_digits(number: f64) -> String {
    let decimals = if number < 9.995 {
        2
    } else if number < 99.95 {
        1
    } else {
        0
    };
    format!("{number:.decimals$}")
}

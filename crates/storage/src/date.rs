//! Date: the names of segments begin with one, for people.

use super::UnixSeconds;

impl UnixSeconds {
    /// The minute in UTC, as `2026-11-22T1430Z`: for names of files.
    pub fn minute(self) -> String {
        let (days, second) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        let (year, month, day) = date(days);
        format!("{year:04}-{month:02}-{day:02}T{:02}{:02}Z", second / 3600, second / 60 % 60)
    }

    /// The day in UTC, as `2026-11-22`.
    pub fn day(self) -> String {
        let (year, month, day) = date(self.0.div_euclid(86_400));
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn date(days: i64) -> (i64, i64, i64) {
    // Every 400 years have as many days; counted from a 1 March, a leap day is the last of its year.
    const CYCLE: i64 = 146_097;
    let from_march_0 = days.saturating_add(719_468);
    let (cycle, day) = (from_march_0.div_euclid(CYCLE), from_march_0.rem_euclid(CYCLE));
    let year = (0..400).rev().find(|&year| first_day(year) <= day).unwrap_or(0);
    let of_year = day - first_day(year);
    let mut month = 0;
    let mut left = of_year;
    for length in [31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 29] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + later, month, left + 1)
}

/// The first day of a year that begins in March, counted from that of year 0.
fn first_day(year: i64) -> i64 {
    year * 365 + year / 4 - year / 100 + year / 400
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_named_as_calendars_name_them() {
        for (seconds, name) in [
            (0, "1970-01-01T0000Z"),
            (951_782_400, "2000-02-29T0000Z"),
            (951_868_799, "2000-02-29T2359Z"),
            (951_868_800, "2000-03-01T0000Z"),
            (1_735_689_540, "2024-12-31T2359Z"),
            (1_795_357_800, "2026-11-22T1430Z"),
            (-1, "1969-12-31T2359Z"),
        ] {
            assert_eq!(UnixSeconds(seconds).minute(), name);
            assert_eq!(UnixSeconds(seconds).day(), name[..10]);
        }
    }
}

//! UTC time in milliseconds, RFC 3339 text, and the `WHEN` grammar of the command lines.
//!
//! Invariant: [`Timestamp`] writes as `YYYY-MM-DDTHH:MM:SS.mmmZ`, so text order is time order.
//! Deliberately absent: the clock, time zones, leap seconds (second 60 reads as 59).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds in a day.
pub const DAY_MS: i64 = 86_400_000;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not a time; says which text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhenError(String);

impl fmt::Display for WhenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a time: use a span (30d, 12h, 2w), a date (2026-03-01), RFC 3339 or @SECONDS",
            self.0
        )
    }
}

impl std::error::Error for WhenError {}

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// This time moved by `ms` milliseconds.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Days since the Unix epoch.
    pub const fn day(self) -> i64 {
        self.0.div_euclid(DAY_MS)
    }

    /// The date, `YYYY-MM-DD`.
    pub fn date(self) -> String {
        let (y, m, d) = civil(self.day());
        format!("{y:04}-{m:02}-{d:02}")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.rem_euclid(DAY_MS);
        let (h, m, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{}T{h:02}:{m:02}:{s:02}.{ms:03}Z", self.date())
    }
}

impl FromStr for Timestamp {
    type Err = WhenError;

    /// Reads RFC 3339 with any offset and any number of fraction digits.
    fn from_str(text: &str) -> Result<Self, WhenError> {
        rfc3339(text.as_bytes()).ok_or_else(|| WhenError(text.to_owned()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Reads the `WHEN` of `--since` and `--as-of`: a span before `now`, a date (00:00Z), RFC 3339
/// or `@SECONDS`.
///
/// # Errors
/// [`WhenError`] when the text is none of these.
pub fn parse_when(text: &str, now: Timestamp) -> Result<Timestamp, WhenError> {
    let bad = || WhenError(text.to_owned());
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds: i64 = seconds.parse().map_err(|_| bad())?;
        return seconds.checked_mul(1000).map(Timestamp).ok_or_else(bad);
    }
    if let Some(span) = parse_span_ms(text) {
        return Ok(now.plus_ms(-span));
    }
    date(text.as_bytes())
        .map(|days| Timestamp(days * DAY_MS))
        .or_else(|| rfc3339(text.as_bytes()))
        .ok_or_else(bad)
}

/// Reads a span such as `30d`, `12h`, `2w`, `15m`, `10s`; milliseconds.
fn parse_span_ms(text: &str) -> Option<i64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1000,
        b'm' => 60_000,
        b'h' => 3_600_000,
        b'd' => DAY_MS,
        b'w' => 7 * DAY_MS,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<i64>().ok()?.checked_mul(unit)
}

fn rfc3339(b: &[u8]) -> Option<Timestamp> {
    let days = date(b.get(..10)?)?;
    if !matches!(b.get(10)?, b'T' | b't' | b' ') {
        return None;
    }
    let (h, m, s) = (two(b, 11)?, two(b, 14)?, two(b, 17)?);
    if b.get(13) != Some(&b':') || b.get(16) != Some(&b':') || h > 23 || m > 59 || s > 60 {
        return None;
    }
    let (ms, rest) = fraction(&b[19..])?;
    let offset_min = offset(rest)?;
    let of_day = h * 3_600_000 + m * 60_000 + s.min(59) * 1000 + ms;
    Some(Timestamp(days * DAY_MS + of_day - offset_min * 60_000))
}

fn fraction(b: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = b.strip_prefix(b".") else { return Some((0, b)) };
    let n = digits.iter().take_while(|c| c.is_ascii_digit()).count();
    if n == 0 {
        return None;
    }
    let ms =
        (0..3).fold(0, |ms, i| ms * 10 + digits[..n].get(i).map_or(0, |c| i64::from(c - b'0')));
    Some((ms, &digits[n..]))
}

fn offset(b: &[u8]) -> Option<i64> {
    match b {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), rest @ ..] if rest.len() == 5 && rest[2] == b':' => {
            let minutes = two(rest, 0)? * 60 + two(rest, 3)?;
            Some(if *sign == b'-' { -minutes } else { minutes })
        }
        _ => None,
    }
}

/// Days since the epoch of `YYYY-MM-DD`.
fn date(b: &[u8]) -> Option<i64> {
    if b.len() != 10 || b[4] != b'-' || b[7] != b'-' {
        return None;
    }
    let (y, m, d) = (two(b, 0)? * 100 + two(b, 2)?, two(b, 5)?, two(b, 8)?);
    let days = days_from_civil(y, m, d);
    (civil(days) == (y, m, d)).then_some(days)
}

fn two(b: &[u8], at: usize) -> Option<i64> {
    match b.get(at..at + 2)? {
        [x, y] if x.is_ascii_digit() && y.is_ascii_digit() => {
            Some(i64::from(x - b'0') * 10 + i64::from(y - b'0'))
        }
        _ => None,
    }
}

/// Days since the epoch of a Gregorian date; the year starts in March, so the leap day is last.
fn days_from_civil(y: i64, m: i64, d: i64) -> i64 {
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * ((m + 9) % 12) + 2) / 5 + d - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let m = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(m <= 2), m, of_year - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_milliseconds_agree() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-02-29T12:30:15.250Z", 951_827_415_250),
            ("2026-11-29T09:14:07.512Z", 1_795_943_647_512),
        ] {
            assert_eq!(text.parse::<Timestamp>().map(Timestamp::unix_ms), Ok(ms), "{text}");
            assert_eq!(Timestamp::from_unix_ms(ms).to_string(), text);
        }
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        let want: Timestamp = "2026-03-01T00:00:00.120Z".parse().expect("a time");
        for same in ["2026-03-01T02:00:00.12+02:00", "2026-02-28t19:00:00.120999-05:00"] {
            assert_eq!(same.parse(), Ok(want), "{same}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for bad in [
            "",
            "2026-02-29",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2",
            "2026-1-1",
            "yesterday",
            "5",
            "d",
            "-5d",
            "@x",
            "@9223372036854775807",
            "9223372036854775807w",
        ] {
            assert!(parse_when(bad, Timestamp(0)).is_err(), "{bad}");
        }
    }

    #[test]
    fn when_has_four_forms() {
        let now: Timestamp = "2026-03-31T12:00:00Z".parse().expect("a time");
        for (text, want) in [
            ("30d", "2026-03-01T12:00:00.000Z"),
            ("12h", "2026-03-31T00:00:00.000Z"),
            ("2w", "2026-03-17T12:00:00.000Z"),
            ("2026-03-01", "2026-03-01T00:00:00.000Z"),
            ("@1", "1970-01-01T00:00:01.000Z"),
            ("2026-03-01T01:02:03Z", "2026-03-01T01:02:03.000Z"),
        ] {
            assert_eq!(parse_when(text, now).map(|t| t.to_string()), Ok(want.into()), "{text}");
        }
    }
}

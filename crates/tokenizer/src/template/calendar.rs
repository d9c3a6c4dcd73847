//! `strftime_now`: the date in UTC, by Python's format codes.
//!
//! A calendar of our own: days since 1970 to year, month and day is twenty lines, and nothing else
//! here needs a time library.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const SECONDS_PER_DAY: u64 = 86_400;

/// A moment, as a calendar and a clock show it.
struct Moment {
    year: u64,
    /// From one.
    month: usize,
    /// From one.
    day: u64,
    /// From one.
    day_of_year: u64,
    /// From Monday, which is zero.
    weekday: usize,
    hour: u64,
    minute: u64,
    second: u64,
}

/// Prints the moment `unix_seconds` after the beginning of 1970. Unknown codes are kept as they are.
pub(super) fn format(unix_seconds: u64, pattern: &str) -> String {
    let moment = Moment::at(unix_seconds);
    let mut out = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            // Not padded, as in `%-d`.
            Some('-') => {
                let code = characters.next().unwrap_or('-');
                let padded = moment.show(code).unwrap_or_else(|| format!("%-{code}"));
                let digits = padded.trim_start_matches('0');
                out.push_str(if digits.is_empty() { "0" } else { digits });
            }
            Some(code) => out.push_str(&moment.show(code).unwrap_or_else(|| format!("%{code}"))),
            None => out.push('%'),
        }
    }
    out
}

impl Moment {
    fn at(unix_seconds: u64) -> Self {
        let (days, seconds) = (unix_seconds / SECONDS_PER_DAY, unix_seconds % SECONDS_PER_DAY);
        let (mut year, mut day) = (1970, days % DAYS_PER_ERA);
        // The calendar repeats every 400 years.
        let eras = days / DAYS_PER_ERA;
        while day >= days_in_year(year) {
            day -= days_in_year(year);
            year += 1;
        }
        let day_of_year = day + 1;
        let mut month = 1;
        while day >= days_in_month(year, month) {
            day -= days_in_month(year, month);
            month += 1;
        }
        // 1970 began on a Thursday.
        let weekday = usize::try_from((days + 3) % 7).expect("less than seven");
        Self {
            year: year + eras * 400,
            month,
            day: day + 1,
            day_of_year,
            weekday,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
        }
    }

    fn show(&self, code: char) -> Option<String> {
        let (month, day) = (MONTHS[self.month - 1], DAYS[self.weekday]);
        let half_day = (self.hour + 11) % 12 + 1;
        Some(match code {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year % 100),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'j' => format!("{:03}", self.day_of_year),
            'B' => month.to_owned(),
            'b' => month[..3].to_owned(),
            'A' => day.to_owned(),
            'a' => day[..3].to_owned(),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{half_day:02}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month, self.day),
            'T' => format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

const DAYS_PER_ERA: u64 = 146_097;

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn days_in_month(year: u64, month: usize) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

//! What code is worth, for a terminal.

use crate::tried::is_whole;
use crate::worth::{CodeRow, CostOf, Numbers, Worths, duration};
use profile::{Estimate, Verdict, percent, percent_range, printable};
use std::fmt::Write as _;

/// Hosts that differ by less than this much of a slope (half a point) are alike.
const ALIKE: f64 = 0.005;

impl Worths {
    /// For a terminal: what to do first comes first.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = self.heading();
        let (known, unknown): (Vec<&CodeRow>, Vec<&CodeRow>) =
            self.rows.iter().partition(|row| row.numbers.is_some());
        for (nth, row) in known.iter().enumerate() {
            let _ = write!(out, "\n{}. ", nth + 1);
            one(row, self, &mut out);
        }
        if !unknown.is_empty() {
            out += "\nno host has made five experiments on:\n";
            for row in unknown {
                let _ = writeln!(out, "   {} ({}) for {}", code(row), service(&row.service), point(row));
            }
            out += "   wait until one has, or raise the share of the time in which they experiment\n";
        }
        if self.more > 0 {
            let _ = writeln!(out, "\n{} more: --top {}", self.more, self.rows.len() + self.more);
        }
        out
    }

    fn heading(&self) -> String {
        let mut out = format!(
            "what making code faster is worth: {}, {}, {}; {}\n",
            count(self.hosts, "host"),
            count(self.runs, "run"),
            count(self.windows, "window"),
            span(self.since, self.until)
        );
        if !self.selection.is_empty() {
            let _ = writeln!(out, "of {}", printable(&self.selection.join(", ")));
        }
        match &self.cost {
            Some(CostOf { event, since, until, machines, samples, cores }) => {
                let cores =
                    cores.map(|cores| format!(", {} CPUs on average", number(cores))).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "costs: {samples} samples of {} on {}{cores}; {}",
                    printable(event),
                    count(*machines, "machine"),
                    span(since.unwrap_or(0), until.unwrap_or(0))
                );
            }
            None => {
                out += "costs: there are no samples of that time, so what helps most comes first, whatever it costs\n"
            }
        }
        if self.broken > 0 {
            let _ = writeln!(
                out,
                "! {} without all of their windows do not count: see whatif fleet status",
                count(self.broken, "run")
            );
        }
        out
    }
}

fn one(row: &CodeRow, all: &Worths, out: &mut String) {
    let Some(numbers) = &row.numbers else { return };
    let _ = writeln!(out, "{} ({}): {}", code(row), service(&row.service), row.verdict.words());
    if let (Some(doubt), Some(advice)) = (&row.doubt, &row.advice) {
        let _ = writeln!(out, "   ! {doubt}\n     {advice}");
    }
    let at = (100.0 * all.speedup).round();
    let _ = writeln!(out, "   {at} % less time there → {}, {}", gain(numbers, row), basis(numbers));
    if let Some(cost) = cost(row) {
        let _ = writeln!(out, "   {cost}");
    }
    if let Some(mark) = row.mark {
        let _ = writeln!(out, "   {}", mark.name().replace('-', " "));
    }
    if let Some(differ) = differ(numbers, all.speedup) {
        let _ = writeln!(out, "   {differ}");
    }
    let _ = writeln!(out, "   {}", needed(numbers, all));
    if all.by_version {
        versions(row, out);
    }
}

fn versions(row: &CodeRow, out: &mut String) {
    for of in &row.versions {
        let won = of.cores.as_ref().and_then(|cores| Some((cores.won?, cores.service_cores?)));
        let won = won.map(|(won, all)| format!(", {} of its {} CPUs", number(won), number(all)));
        let _ = writeln!(
            out,
            "   {}: {}, {}{}",
            version(&of.version),
            gain(&of.numbers, row),
            basis(&of.numbers),
            won.unwrap_or_default()
        );
    }
    for change in &row.changes {
        let difference = Estimate {
            value: change.difference,
            se: change.difference_se,
            lo: change.difference_lo,
            hi: change.difference_hi,
        };
        let certain = if difference.lo > 0.0 || difference.hi < 0.0 { "" } else { ", which may be chance" };
        let hosts = match change.same_hosts {
            Some(hosts) => format!("{} that ran both", count(hosts, "host")),
            None => "the hosts of one with those of the other".to_owned(),
        };
        let _ = writeln!(
            out,
            "   {} → {}: worth {} more ({}){certain}, comparing {hosts}",
            version(&change.before),
            version(&change.after),
            percent(&difference),
            percent_range(&difference)
        );
    }
}

/// `8 % less time per `requests` (6 to 10)`.
fn gain(numbers: &Numbers, row: &CodeRow) -> String {
    let gain = numbers.gain();
    format!("{} {} ({})", percent(&gain), point(row), percent_range(&gain))
}

/// What there is less of.
fn point(row: &CodeRow) -> String {
    let name = printable(&row.point);
    match row.kind {
        "latency" => format!("less latency of `{name}`"),
        _ if is_whole(&row.point) => "less time for the whole program".to_owned(),
        _ => format!("less time per `{name}`"),
    }
}

fn basis(numbers: &Numbers) -> String {
    let left_out = match numbers.left_out {
        0 => String::new(),
        few => format!(" ({few} more have made fewer than five)"),
    };
    let even = if numbers.even_weights { ", each of which counts the same" } else { "" };
    let hosts = match numbers.hosts {
        1 => "on one host, which says nothing of others".to_owned(),
        hosts => format!("in the mean of {hosts} hosts{even}"),
    };
    format!("{hosts}, by {}{left_out}", count(numbers.blocks, "experiment"))
}

fn cost(row: &CodeRow) -> Option<String> {
    let cores = row.cores.as_ref()?;
    let service = cores.service_cores?;
    let here = match (cores.cores, cores.share) {
        (Some(here), Some(share)) => {
            format!(
                "the code itself takes {} of the {} CPUs of the service ({:.1} %)",
                number(here),
                number(service),
                100.0 * share
            )
        }
        _ => format!("the service takes {} CPUs", number(service)),
    };
    let won = match (cores.won, cores.won_lo, cores.won_hi) {
        (Some(won), Some(lo), Some(hi)) if row.verdict == Verdict::Helps => format!(
            "the same work would then take {} CPUs less ({} to {}); ",
            number(won),
            number(lo),
            number(hi.min(service))
        ),
        _ => String::new(),
    };
    Some(format!("{won}{here}"))
}

/// How much hosts differ, in words.
fn differ(numbers: &Numbers, speedup: f64) -> Option<String> {
    let (tau, part) = (numbers.tau?, numbers.i_squared?);
    if tau < ALIKE {
        return Some("hosts are alike, as far as can be seen".to_owned());
    }
    let new_host = match (numbers.new_host, numbers.new_host_lo, numbers.new_host_hi) {
        (Some(value), Some(lo), Some(hi)) => {
            let new = Estimate { value: speedup * value, se: 0.0, lo: speedup * lo, hi: speedup * hi };
            format!("; one that was not measured gains {} %", percent_range(&new))
        }
        _ => String::new(),
    };
    let beyond = match part {
        part if part < 0.25 => "hardly more than noise",
        part if part < 0.75 => "more than noise",
        _ => "much more than noise",
    };
    let (points, part) = (100.0 * speedup * tau, 100.0 * part);
    Some(format!("hosts differ by ± {points:.1} points, {beyond} (I² {part:.0} %){new_host}"))
}

/// What a narrower interval takes.
fn needed(numbers: &Numbers, all: &Worths) -> String {
    let points = number(100.0 * all.goal);
    let slope =
        Estimate { value: numbers.slope, se: numbers.slope_se, lo: numbers.slope_lo, hi: numbers.slope_hi };
    let worth = format!("worth {} ({})", percent(&slope), percent_range(&slope));
    let is_known = numbers.more_hosts == Some(0) || numbers.more_days == Some(0.0);
    if is_known {
        return format!("{worth}: known to ± {points} points, but for what the method gets wrong");
    }
    let hosts = numbers.more_hosts.zip(numbers.more_hosts_days);
    let hosts = hosts.map(|(hosts, days)| {
        let plural = if hosts == 1 { "" } else { "s" };
        format!("{hosts} more host{plural} like these ({})", days_of(days))
    });
    let same = numbers.more_days.map(|days| format!("{} more of the same", days_of(days)));
    let ways: Vec<String> = hosts.into_iter().chain(same).collect();
    let floor = match numbers.more_days {
        None => format!("; these alone end at ± {}, for they differ", number(100.0 * numbers.floor)),
        Some(_) => String::new(),
    };
    match ways.join(", or ") {
        ways if ways.is_empty() => {
            format!("{worth}: ± {points} points are out of reach of these hosts{floor}")
        }
        ways => format!("{worth}: ± {points} points take {ways}{floor}"),
    }
}

/// `3.5 host-days`; less than one in smaller units.
fn days_of(days: f64) -> String {
    if days >= 1.0 {
        profile::meta_analysis::HostDays::new(days).to_string()
    } else {
        format!("{} of a host", duration(days))
    }
}

fn code(row: &CodeRow) -> String {
    let label = printable(&row.code.label);
    match row.code.program.as_str() {
        "" => label.into_owned(),
        program => format!("{label} in {}", printable(program)),
    }
}

fn service(name: &str) -> String {
    if name.is_empty() { "no service".to_owned() } else { printable(name).into_owned() }
}

fn version(name: &str) -> String {
    if name.is_empty() { "no version".to_owned() } else { printable(name).into_owned() }
}

fn count(number: usize, noun: &str) -> String {
    profile::counted(number as u64, noun)
}

/// With three digits or so.
fn number(of: f64) -> String {
    let decimals = match of.abs() {
        large if large >= 99.95 => 0,
        large if large >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{of:.decimals$}").replace('-', "−");
    text.strip_suffix(".00").map(str::to_owned).unwrap_or(text)
}

fn span(since: i64, until: i64) -> String {
    let at = |second| jiff::Timestamp::from_second(second).map(|at| at.to_string()).unwrap_or_default();
    format!("{} to {}", at(since), at(until))
}

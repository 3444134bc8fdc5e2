//! What can be typed after `whatif ab`.

use anyhow::{Result, ensure};
use clap::Args;
use controller::Usage;
use profile::condition::Condition;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct Ab {
    /// Count visits to this place, instead of measuring how long runs take: for programs that do not end by themselves; FILE:LINE,
    /// fn:NAME or NAME, usdt:PROVIDER:NAME
    #[arg(short = 'p', long = "point", value_name = "PLACE")]
    pub point: Option<String>,

    /// How long each run is counted, and then ended [default with -p: 5s]; without -p, visits to the point that is marked in the source
    #[arg(long, value_name = "TIME", value_parser = controller::span::parse)]
    pub seconds: Option<Duration>,

    /// With -p, programs and libraries to look into [default: the program itself]
    #[arg(long = "binary", value_name = "GLOB")]
    pub binaries: Vec<String>,

    /// With -p, the signal that ends each run
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    pub stop_signal: String,

    /// How exactly the difference must be known: half of its interval
    #[arg(long, value_name = "PERCENT", default_value = "1%", allow_hyphen_values = true)]
    pub precision: String,

    /// So many rounds at most, each with one run of both [default: until the difference is known, or the time is up]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub runs: Option<u32>,

    /// Begin no further round after this time: 90s, 5m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = controller::span::parse)]
    pub duration: Duration,

    /// Runs of each that do not count, before the first round
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warmup: u32,

    /// Seed of the order of the runs [default: a new one]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Exit with status 1 if this is certain: 'gain(time) < -3%', or gain of cpu, memory or visits; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,

    /// Let the programs write on this terminal
    #[arg(long)]
    pub show_output: bool,

    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,

    /// The two commands: BEFORE… -- AFTER…
    #[arg(trailing_var_arg = true, required = true, value_name = "BEFORE… -- AFTER…")]
    pub commands: Vec<String>,
}

/// How a command is to be written whose arguments have a `--` of their own.
const WRITE: &str =
    "write whatif ab -- BEFORE… -- AFTER…; a command that has a -- of its own goes into sh -c '…'";

impl Ab {
    /// The two commands.
    pub fn split(&self) -> Result<(Vec<String>, Vec<String>)> {
        let typed = || -> Result<(Vec<String>, Vec<String>)> {
            let words: Vec<&[String]> = self.commands.split(|word| word == "--").collect();
            let [before, after] = words[..] else {
                anyhow::bail!("there are {} commands where two are to be compared: {WRITE}", words.len());
            };
            ensure!(!before.is_empty() && !after.is_empty(), "one of the two commands is empty: {WRITE}");
            Ok((before.to_vec(), after.to_vec()))
        };
        typed().map_err(Usage::of)
    }

    /// How long each run is counted; `None` where runs end by themselves.
    pub fn counted(&self) -> Option<Duration> {
        let usually = self.point.as_ref().map(|_| Duration::from_secs(5));
        self.seconds.or(usually)
    }

    /// Half the width of the interval that is narrow enough, as a fraction.
    pub fn enough(&self) -> Result<f64> {
        let wrong = || {
            anyhow::anyhow!("--precision {}: give a per cent above 0, as in --precision 1%", self.precision)
        };
        profile::relation::part(&self.precision).ok_or_else(|| Usage::of(wrong()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        ab: Ab,
    }

    #[test]
    fn the_second_command_begins_after_the_dashes() {
        let split = |words: &[&str]| Typed::parse_from([&["ab"], words].concat()).ab.split();
        let (before, after) = split(&["--runs", "3", "--", "./a", "-x", "--", "./b", "--long"]).unwrap();
        assert_eq!((before.join(" "), after.join(" ")), ("./a -x".to_owned(), "./b --long".to_owned()));
        for wrong in [&["--", "./a"][..], &["--", "./a", "--"], &["--", "./a", "--", "./b", "--", "c"]] {
            let error = split(wrong).unwrap_err();
            assert!(error.is::<Usage>() && error.to_string().contains("whatif ab -- BEFORE"), "{error:#}");
        }
    }
}

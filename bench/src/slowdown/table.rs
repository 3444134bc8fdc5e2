//! How much longer each workload takes in each configuration.

use std::fmt;

use super::configuration::Configuration;
use super::workload::Workload;
use crate::interval::{Interval, mean};

pub struct Table {
    workloads: Vec<&'static str>,
    configurations: Vec<Configuration>,
    /// Seconds, by round, configuration and workload.
    rounds: Vec<Vec<Vec<f64>>>,
    /// Samples per second and CPU, by configuration and round.
    rates: Vec<Vec<f64>>,
}

impl Table {
    pub fn new(workloads: &[Workload], configurations: &[Configuration]) -> Self {
        Self {
            workloads: workloads.iter().map(|workload| workload.name).collect(),
            configurations: configurations.to_vec(),
            rounds: Vec::new(),
            rates: vec![Vec::new(); configurations.len()],
        }
    }

    /// Adds what all workloads took, in seconds, by configuration.
    pub fn add(&mut self, round: Vec<Vec<f64>>) {
        self.rounds.push(round);
    }

    /// Notes how many samples a configuration took, per second and CPU.
    pub fn reached(&mut self, configuration: usize, rate: Option<f64>) {
        self.rates[configuration].extend(rate);
    }

    /// What a workload takes without a profiler in each round, in seconds.
    fn base(&self, workload: usize) -> Vec<f64> {
        let is_base = |configuration: &&usize| self.configurations[**configuration] == Configuration::Base;
        let places: Vec<usize> = (0..self.configurations.len()).collect();
        let of_round = |round: &Vec<Vec<f64>>| {
            let times: Vec<f64> =
                places.iter().filter(is_base).map(|place| round[*place][workload]).collect();
            mean(&times).expect("there is a configuration without a profiler")
        };
        self.rounds.iter().map(of_round).collect()
    }

    /// By how many per cent a workload takes longer, against the runs without a profiler of the same round.
    fn slowdown(&self, configuration: usize, workload: usize) -> Vec<f64> {
        let base = self.base(workload);
        let times = self.rounds.iter().map(|round| round[configuration][workload]);
        times.zip(base).map(|(time, base)| 100.0 * (time / base - 1.0)).collect()
    }

    /// The mean over the workloads, by round.
    fn of_all(&self, configuration: usize) -> Vec<f64> {
        let each: Vec<Vec<f64>> =
            (0..self.workloads.len()).map(|workload| self.slowdown(configuration, workload)).collect();
        let of_round = |round| mean(&each.iter().map(|one: &Vec<f64>| one[round]).collect::<Vec<_>>());
        (0..self.rounds.len()).filter_map(of_round).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profiled: Vec<usize> = (0..self.configurations.len())
            .filter(|place| self.configurations[*place] != Configuration::Base)
            .collect();
        writeln!(f, "slowdown in per cent, means of {} runs with 95 % intervals", self.rounds.len())?;
        write!(f, "| workload | base, ms |")?;
        profiled.iter().try_for_each(|place| write!(f, " {} |", self.configurations[*place]))?;
        write!(f, "\n|---|---|")?;
        profiled.iter().try_for_each(|_| write!(f, "---|"))?;
        writeln!(f)?;
        let cell = |f: &mut fmt::Formatter<'_>, values: &[f64], digits| {
            let interval = Interval::of_mean(values);
            write!(f, " {:.digits$} ± {:.digits$} |", interval.estimate, interval.half_width())
        };
        for (workload, name) in self.workloads.iter().enumerate() {
            write!(f, "| {name} |")?;
            let base: Vec<f64> = self.base(workload).iter().map(|seconds| 1e3 * seconds).collect();
            cell(f, &base, 0)?;
            profiled.iter().try_for_each(|place| cell(f, &self.slowdown(*place, workload), 1))?;
            writeln!(f)?;
        }
        write!(f, "| all | |")?;
        profiled.iter().try_for_each(|place| cell(f, &self.of_all(*place), 1))?;
        write!(f, "\n| samples a second and CPU | |")?;
        for place in &profiled {
            match mean(&self.rates[*place]) {
                Some(rate) => write!(f, " {rate:.0} |")?,
                None => write!(f, " – |")?,
            }
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Profiler;
    use super::super::workload::WORKLOADS;
    use super::*;

    #[test]
    fn slowdowns_are_those_of_a_round() {
        let profiled = Configuration::Profiled { profiler: Profiler::Cycles, rate: 97 };
        let mut table = Table::new(&WORKLOADS[..1], &[Configuration::Base, profiled, Configuration::Base]);
        // The whole machine is half as fast in the second round.
        table.add(vec![vec![0.9], vec![1.1], vec![1.1]]);
        table.add(vec![vec![2.0], vec![2.2], vec![2.0]]);
        let slowdown = Interval::of_mean(&table.slowdown(1, 0));
        assert!((slowdown.estimate - 10.0).abs() < 1e-9 && slowdown.half_width() < 1e-6, "{slowdown:?}");
        table.reached(1, Some(96.0));
        let text = table.to_string();
        assert!(text.contains("| cycles 97 |") && text.contains("| 10.0 ± 0.0 |"), "{text}");
        assert!(text.contains("| samples a second and CPU | | 96 |"), "{text}");
    }
}

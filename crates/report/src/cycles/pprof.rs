//! The samples for pprof, with their stacks: a gzipped protocol buffer.

use super::heading::kind_of_time;
use crate::pprof::message::{Function, Line, Location, Mapping, Profile, Sample, ValueType};
use cycles::{Heading, StackNode, Stacks};
use flate2::write::GzEncoder;
use profile::printable;
use prost::Message as _;
use std::collections::HashMap;
use std::io::Write as _;

/// Samples and the CPU time they stand for, if they do.
pub fn pprof(heading: &Heading, stacks: &Stacks) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    let plain = message(heading, stacks).encode_to_vec();
    gzip.write_all(&plain).and_then(|()| gzip.finish()).expect("memory takes any bytes")
}

fn message(heading: &Heading, stacks: &Stacks) -> Profile {
    let mut texts = Texts::default();
    let mut type_of =
        |name: &str, unit: &str| ValueType { r#type: texts.place(name), unit: texts.place(unit) };
    let samples = type_of("samples", "count");
    let time = heading.nanos_per_sample.map(|nanos| (type_of(kind_of_time(heading), "nanoseconds"), nanos));
    let mapping = (1..)
        .zip(&stacks.images)
        .map(|(id, image)| Mapping {
            id,
            filename: texts.place(&printable(&image.path)),
            build_id: texts.place(&printable(&image.build_id)),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        })
        .collect();
    let mut function: Vec<Function> = Vec::new();
    let mut known: HashMap<(&str, &str), u64> = HashMap::new();
    let mut location = Vec::with_capacity(stacks.positions.len());
    for (id, position) in (1..).zip(&stacks.positions) {
        let mut line = Vec::with_capacity(position.lines.len());
        for one in &position.lines {
            let function_id = *known.entry((&one.function, &one.file)).or_insert_with(|| {
                let id = function.len() as u64 + 1;
                let name = texts.place(&printable(&one.function));
                let filename = texts.place(&printable(&one.file));
                function.push(Function { id, name, system_name: name, filename });
                id
            });
            line.push(Line { function_id, line: i64::from(one.line) });
        }
        location.push(Location { id, mapping_id: u64::from(position.image) + 1, line });
    }
    let sample = stacks
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.count > 0)
        .map(|(nth, node)| Sample {
            location_id: innermost_first(stacks, nth).map(|position| u64::from(position) + 1).collect(),
            value: std::iter::once(1.0)
                .chain(time.map(|(_, nanos)| nanos))
                .map(|each| whole(node.count as f64 * each))
                .collect(),
            label: Vec::new(),
        })
        .collect();
    let comment = vec![texts.place(&printable(&heading.database))];
    Profile {
        sample_type: std::iter::once(samples).chain(time.map(|(kind, _)| kind)).collect(),
        sample,
        mapping,
        location,
        function,
        time_nanos: heading.since.unwrap_or(0).saturating_mul(1_000_000_000),
        duration_nanos: duration(heading),
        period_type: time.map(|(kind, _)| kind),
        period: time.map_or(0, |(_, nanos)| whole(nanos)),
        comment,
        default_sample_type: time.map_or(samples, |(kind, _)| kind).r#type,
        string_table: texts.all,
    }
}

/// The positions of a stack.
pub(super) fn innermost_first(stacks: &Stacks, nth: usize) -> impl Iterator<Item = u32> {
    let node = |nth: u32| stacks.nodes[nth as usize];
    let next = move |nth: &u32| Some(node(*nth).parent).filter(|parent| *parent != StackNode::NONE);
    std::iter::successors(Some(nth as u32), next).map(move |nth| node(nth).position)
}

pub(super) fn duration(heading: &Heading) -> i64 {
    let seconds = heading.until.unwrap_or(0).saturating_sub(heading.since.unwrap_or(0));
    seconds.saturating_mul(1_000_000_000)
}

pub(super) fn whole(number: f64) -> i64 {
    number.round() as i64
}

/// Texts, each once; the first is empty.
pub(super) struct Texts {
    pub(super) all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts { all: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    /// Where the text stands.
    pub(super) fn place(&mut self, text: &str) -> i64 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let new = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stack_is_a_sample_with_inlined_lines() {
        let heading =
            Heading { nanos_per_sample: Some(10.0), since: Some(7), until: Some(9), ..Heading::default() };
        let message = super::message(&heading, &Stacks::example());
        let stacks: Vec<_> =
            message.sample.iter().map(|one| (one.location_id.clone(), one.value.clone())).collect();
        assert_eq!(
            stacks,
            [
                (vec![1], vec![1, 10]),
                (vec![2, 1], vec![10, 100]),
                (vec![3, 1], vec![100, 1000]),
                (vec![3, 3, 1], vec![1000, 10_000])
            ]
        );
        let text = |nth: i64| message.string_table[nth as usize].as_str();
        let names = |location: &Location| -> Vec<(String, i64)> {
            let name = |line: &Line| text(message.function[line.function_id as usize - 1].name).to_owned();
            location.line.iter().map(|line| (name(line), line.line)).collect()
        };
        assert_eq!(names(&message.location[1]), [("tiny(int)".to_owned(), 9), ("work(int)".to_owned(), 5)]);
        assert_eq!(text(message.mapping[0].build_id), "abcd");
        assert_eq!((message.time_nanos, message.duration_nanos), (7_000_000_000, 2_000_000_000));
        assert_eq!(text(message.default_sample_type), "cpu");

        let message = super::message(&Heading { nanos_per_sample: None, ..heading }, &Stacks::example());
        assert_eq!(message.sample[1].value, [10]);
        assert_eq!((message.sample_type.len(), message.period_type, message.period), (1, None, 0));
        assert_eq!(message.string_table[message.default_sample_type as usize], "samples");
    }
}

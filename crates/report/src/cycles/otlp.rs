//! The samples as OTLP profiles: a protocol buffer, as a file exporter writes it.

use super::heading::kind_of_time;
use super::otlp_message::*;
use super::pprof::{Texts, duration, innermost_first, whole};
use cycles::{Heading, Stacks};
use profile::printable;
use prost::Message as _;
use std::collections::HashMap;

/// The build ID of an image, as OpenTelemetry's semantic conventions call it.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// One profile with one sample for each stack.
pub fn otlp(heading: &Heading, stacks: &Stacks) -> Vec<u8> {
    data(heading, stacks).encode_to_vec()
}

fn data(heading: &Heading, stacks: &Stacks) -> ProfilesData {
    let mut texts = Texts::default();
    let mut of = |text: &str| texts.place(&printable(text)) as i32;
    let text = |text: &str| Some(AnyValue { string_value: Some(text.to_owned()) });
    let sample_type = ValueType { type_strindex: of("samples"), unit_strindex: of("count") };
    let period_type = heading
        .nanos_per_sample
        .map(|_| ValueType { type_strindex: of(kind_of_time(heading)), unit_strindex: of("nanoseconds") });

    let mut attribute_table = vec![Attribute::default()];
    let mut mapping_table = vec![Mapping::default()];
    for image in &stacks.images {
        let mut attribute_indices = Vec::new();
        if !image.build_id.is_empty() {
            attribute_indices.push(attribute_table.len() as i32);
            attribute_table.push(Attribute { key_strindex: of(BUILD_ID), value: text(&image.build_id) });
        }
        mapping_table.push(Mapping { filename_strindex: of(&image.path), attribute_indices });
    }
    let mut function_table = vec![Function::default()];
    let mut known: HashMap<(&str, &str), i32> = HashMap::new();
    let mut location_table = vec![Location::default()];
    for position in &stacks.positions {
        let mut lines = Vec::with_capacity(position.lines.len());
        for one in &position.lines {
            let function_index = *known.entry((&one.function, &one.file)).or_insert_with(|| {
                function_table
                    .push(Function { name_strindex: of(&one.function), filename_strindex: of(&one.file) });
                function_table.len() as i32 - 1
            });
            lines.push(Line { function_index, line: i64::from(one.line) });
        }
        location_table.push(Location {
            mapping_index: position.image as i32 + 1,
            address: position.offset,
            lines,
        });
    }
    let mut stack_table = vec![Stack::default()];
    let mut samples = Vec::new();
    for (nth, node) in stacks.nodes.iter().enumerate().filter(|(_, node)| node.count > 0) {
        let location_indices = innermost_first(stacks, nth).map(|position| position as i32 + 1).collect();
        samples
            .push(Sample { stack_index: stack_table.len() as i32, values: vec![whole(node.count as f64)] });
        stack_table.push(Stack { location_indices });
    }
    let profile = Profile {
        sample_type: Some(sample_type),
        samples,
        time_unix_nano: (heading.since.unwrap_or(0).max(0) as u64).saturating_mul(1_000_000_000),
        duration_nano: duration(heading).max(0) as u64,
        period_type,
        period: whole(heading.nanos_per_sample.unwrap_or(0.0)),
    };
    let host = KeyValue { key: "host.name".to_owned(), value: text(&printable(&heading.machines.join(","))) };
    let scope = Scope { name: "whatif".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource { attributes: vec![host] }),
            scope_profiles: vec![ScopeProfiles { scope: Some(scope), profiles: vec![profile] }],
        }],
        dictionary: Some(Dictionary {
            mapping_table,
            location_table,
            function_table,
            link_table: vec![Link {}],
            string_table: texts.all,
            attribute_table,
            stack_table,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_begin_with_nothing_and_stacks_are_innermost_first() {
        let heading = Heading {
            machines: vec!["build-7".to_owned()],
            since: Some(7),
            until: Some(9),
            ..Heading::default()
        };
        let data = ProfilesData::decode(otlp(&heading, &Stacks::example()).as_slice()).unwrap();
        let dictionary = data.dictionary.unwrap();
        assert_eq!(dictionary.string_table[0], "");
        assert_eq!(dictionary.mapping_table[0], Mapping::default());
        assert_eq!(dictionary.stack_table.last().unwrap().location_indices, [3, 3, 1]);
        let text = |nth: i32| dictionary.string_table[nth as usize].as_str();
        let lines = &dictionary.location_table[2].lines;
        assert_eq!(
            text(dictionary.function_table[lines[0].function_index as usize].name_strindex),
            "tiny(int)"
        );
        let build_id = &dictionary.attribute_table[dictionary.mapping_table[1].attribute_indices[0] as usize];
        assert_eq!(text(build_id.key_strindex), BUILD_ID);
        let profile = &data.resource_profiles[0].scope_profiles[0].profiles[0];
        let counts: Vec<i64> = profile.samples.iter().map(|sample| sample.values[0]).collect();
        assert_eq!(counts, [1, 10, 100, 1000]);
        assert_eq!(profile.duration_nano, 2_000_000_000);
    }
}

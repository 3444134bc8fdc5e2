//! Table: what the messages refer to by number, each only once.

use std::collections::BTreeMap;

use profile::{Image, printable};

use super::message::{Function, Line, Location, Mapping, ValueType};
use crate::stacks::Frame;

pub(super) struct Table {
    pub(super) texts: Vec<String>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) functions: Vec<Function>,
    pub(super) locations: Vec<Location>,
    known_texts: BTreeMap<String, i64>,
    known_functions: BTreeMap<(String, String), u64>,
    known_images: BTreeMap<Image, u64>,
    known_locations: BTreeMap<(u64, i64, u64), u64>,
}

impl Default for Table {
    fn default() -> Table {
        let mut table = Table {
            texts: Vec::new(),
            mappings: Vec::new(),
            functions: Vec::new(),
            locations: Vec::new(),
            known_texts: BTreeMap::new(),
            known_functions: BTreeMap::new(),
            known_images: BTreeMap::new(),
            known_locations: BTreeMap::new(),
        };
        table.text("");
        table
    }
}

impl Table {
    pub(super) fn text(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.known_texts.get(text) {
            return known;
        }
        let new = self.texts.len() as i64;
        self.texts.push(text.to_owned());
        self.known_texts.insert(text.to_owned(), new);
        new
    }

    pub(super) fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.text(name), unit: self.text(unit) }
    }

    /// The location of a frame.
    pub(super) fn location(&mut self, frame: &Frame<'_>) -> u64 {
        let function_id = self.function(&frame.name, frame.file.unwrap_or_default());
        let line = frame.line.map_or(0, i64::from);
        let mapping_id = frame.image.map_or(0, |image| self.mapping(image));
        let new = self.locations.len() as u64 + 1;
        let id = *self.known_locations.entry((function_id, line, mapping_id)).or_insert(new);
        if id == new {
            self.locations.push(Location { id, mapping_id, line: vec![Line { function_id, line }] });
        }
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), file.to_owned());
        if let Some(&known) = self.known_functions.get(&key) {
            return known;
        }
        let (name, filename) = (self.text(&printable(name)), self.text(&printable(file)));
        let id = self.functions.len() as u64 + 1;
        self.functions.push(Function { id, name, system_name: name, filename });
        self.known_functions.insert(key, id);
        id
    }

    fn mapping(&mut self, image: &Image) -> u64 {
        if let Some(&known) = self.known_images.get(image) {
            return known;
        }
        let filename = self.text(&printable(&image.path));
        let build_id = self.text(&printable(image.build_id.as_deref().unwrap_or_default()));
        let id = self.mappings.len() as u64 + 1;
        self.mappings.push(Mapping {
            id,
            filename,
            build_id,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        });
        self.known_images.insert(image.clone(), id);
        id
    }
}

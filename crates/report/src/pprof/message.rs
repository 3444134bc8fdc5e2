//! The messages of pprof's `profile.proto`, as far as they are written here. Texts are places in `string_table`.

/// All of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// What the values of samples are.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueType>,
    /// Samples that are the same are one.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<Sample>,
    /// Images.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<Mapping>,
    /// Places in the code.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<Function>,
    /// The first is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// When it began, since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// How long it took.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What is counted between two samples.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueType>,
    /// How much of that is between two samples.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// Texts for people.
    #[prost(int64, repeated, tag = "13")]
    pub comment: Vec<i64>,
    /// The value to show first.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ValueType {
    /// Its name.
    #[prost(int64, tag = "1")]
    pub r#type: i64,
    /// Its unit.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// Samples at one place.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sample {
    /// The stack, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// One for each of `sample_type`.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What else is known.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<Label>,
}

/// A text or a number, with a name.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Label {
    /// Its name.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// The text, if it is one.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// The number, if it is one.
    #[prost(int64, tag = "3")]
    pub num: i64,
    /// The number's unit.
    #[prost(int64, tag = "4")]
    pub num_unit: i64,
}

/// An image.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Mapping {
    /// Its number, from 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its path.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Its build ID.
    #[prost(int64, tag = "6")]
    pub build_id: i64,
    /// Function names need not be looked up.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// File names need not be looked up.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Line numbers need not be looked up.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
}

/// A place in the code.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Location {
    /// Its number, from 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The image it is in, or 0.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// The function and line.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Line {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line in its file, or 0.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Function {
    /// Its number, from 1.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name for people.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Its name for linkers.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// The file it is in.
    #[prost(int64, tag = "4")]
    pub filename: i64,
}

//! The messages of OpenTelemetry's profiles signal, `opentelemetry.proto.profiles.v1development`, as far as they are written
//! here. The signal is in development: this is its state at opentelemetry-proto 1.9. Texts are places in `string_table`;
//! the first entry of each table is empty and stands for nothing.

/// All of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProfilesData {
    /// One for each machine; here one.
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles: Vec<ResourceProfiles>,
    /// What they refer to.
    #[prost(message, optional, tag = "2")]
    pub dictionary: Option<Dictionary>,
}

/// What profiles refer to by number.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Dictionary {
    /// Images.
    #[prost(message, repeated, tag = "1")]
    pub mapping_table: Vec<Mapping>,
    /// Places in the code.
    #[prost(message, repeated, tag = "2")]
    pub location_table: Vec<Location>,
    /// Functions.
    #[prost(message, repeated, tag = "3")]
    pub function_table: Vec<Function>,
    /// Links to traces: only the empty one.
    #[prost(message, repeated, tag = "4")]
    pub link_table: Vec<Link>,
    /// Texts.
    #[prost(string, repeated, tag = "5")]
    pub string_table: Vec<String>,
    /// Attributes.
    #[prost(message, repeated, tag = "6")]
    pub attribute_table: Vec<Attribute>,
    /// Stacks.
    #[prost(message, repeated, tag = "7")]
    pub stack_table: Vec<Stack>,
}

/// A machine.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceProfiles {
    /// What it is.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its profiles.
    #[prost(message, repeated, tag = "2")]
    pub scope_profiles: Vec<ScopeProfiles>,
}

/// What something is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    /// Names and values.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// A name and a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value; here always a text.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnyValue {
    /// The text.
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
}

/// What one program has measured.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeProfiles {
    /// The program.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// Its profiles.
    #[prost(message, repeated, tag = "2")]
    pub profiles: Vec<Profile>,
}

/// A program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A profile.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Profile {
    /// What the values of samples are.
    #[prost(message, optional, tag = "1")]
    pub sample_type: Option<ValueType>,
    /// Samples that are the same are one.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
    /// When it began, since 1970.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// How long it took.
    #[prost(uint64, tag = "4")]
    pub duration_nano: u64,
    /// What is counted between two samples.
    #[prost(message, optional, tag = "5")]
    pub period_type: Option<ValueType>,
    /// How much of that is between two samples.
    #[prost(int64, tag = "6")]
    pub period: i64,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ValueType {
    /// Its name.
    #[prost(int32, tag = "1")]
    pub type_strindex: i32,
    /// Its unit.
    #[prost(int32, tag = "2")]
    pub unit_strindex: i32,
}

/// Samples of one stack.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sample {
    /// The stack.
    #[prost(int32, tag = "1")]
    pub stack_index: i32,
    /// How many.
    #[prost(int64, repeated, tag = "4")]
    pub values: Vec<i64>,
}

/// An image.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Mapping {
    /// Its path.
    #[prost(int32, tag = "4")]
    pub filename_strindex: i32,
    /// Its build ID.
    #[prost(int32, repeated, tag = "5")]
    pub attribute_indices: Vec<i32>,
}

/// A stack.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Stack {
    /// Innermost first.
    #[prost(int32, repeated, tag = "1")]
    pub location_indices: Vec<i32>,
}

/// A place in the code.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Location {
    /// The image.
    #[prost(int32, tag = "1")]
    pub mapping_index: i32,
    /// The position in it.
    #[prost(uint64, tag = "2")]
    pub address: u64,
    /// Innermost inlined function first.
    #[prost(message, repeated, tag = "3")]
    pub lines: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Line {
    /// The function.
    #[prost(int32, tag = "1")]
    pub function_index: i32,
    /// The line, or 0.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Function {
    /// Its name.
    #[prost(int32, tag = "1")]
    pub name_strindex: i32,
    /// The file it is in.
    #[prost(int32, tag = "3")]
    pub filename_strindex: i32,
}

/// A link to a trace.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Link {}

/// A name and a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    /// The name.
    #[prost(int32, tag = "1")]
    pub key_strindex: i32,
    /// The value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

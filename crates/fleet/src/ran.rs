//! Who ran, as the fleet knows it.

use archive::{Label, Setting};
use cycles::LabelKey;
use std::collections::BTreeMap;

/// The label of users that says which version of a service runs.
pub const VERSION: &str = "version";
/// The label of users that says which service it is, where the unit does not.
pub const SERVICE: &str = "service";

/// Who ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ran {
    /// The label `service`, or else the innermost systemd unit, or else the container, or else the pod; or nothing.
    pub service: String,
    /// The label `version`, or nothing.
    pub version: String,
    /// Name of the process.
    pub process: String,
    /// All labels of users, those two too, as a JSON object; or nothing.
    pub labels: String,
}

impl Ran {
    /// Of a process, and of the collector that saw it.
    pub fn of(label: &Label, setting: &Setting) -> Ran {
        let mut all: BTreeMap<&str, &str> =
            setting.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        // If a process has a label of the same name, that one counts.
        all.extend(label.user_labels.iter().map(|(name, value)| (&**name, &**value)));
        let of =
            |name: &str| all.get(name).map(|value| (*value).to_owned()).filter(|value| !value.is_empty());
        let service = of(SERVICE).unwrap_or_else(|| {
            let keys = [LabelKey::Unit, LabelKey::Container, LabelKey::Pod];
            let found = keys.iter().map(|key| key.of(label)).find(|text| !text.is_empty());
            found.map(std::borrow::Cow::into_owned).unwrap_or_default()
        });
        let labels = if all.is_empty() {
            String::new()
        } else {
            // Texts by text: nothing of that has no JSON.
            serde_json::to_string(&all).unwrap_or_default()
        };
        Ran { service, version: of(VERSION).unwrap_or_default(), process: label.process.clone(), labels }
    }
}

/// A label of all that are in JSON; nothing where there is none.
pub fn label_in(labels: &str, name: &str) -> String {
    let all: BTreeMap<String, String> = serde_json::from_str(labels).unwrap_or_default();
    all.get(name).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(cgroup: &str, own: &[(&str, &str)]) -> Label {
        let user_labels = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Label { process: "p".into(), cgroup: cgroup.into(), user_labels, ..Label::default() }
    }

    #[test]
    fn services_are_labels_or_units_or_containers() {
        let setting = Setting {
            labels: [("region".to_owned(), "eu".to_owned()), (VERSION.to_owned(), "1".to_owned())].into(),
            ..Setting::default()
        };
        let ran = Ran::of(&label("/system.slice/shop.service", &[("version", "2")]), &setting);
        assert_eq!((&*ran.service, &*ran.version), ("shop.service", "2"));
        assert_eq!(ran.labels, r#"{"region":"eu","version":"2"}"#);
        assert_eq!(label_in(&ran.labels, "region"), "eu");
        assert_eq!(label_in(&ran.labels, "zone"), "");
        let ran = Ran::of(&label("/system.slice/shop.service", &[("service", "cart")]), &Setting::default());
        assert_eq!((&*ran.service, &*ran.version), ("cart", ""));
        let ran = Ran::of(&label("", &[]), &Setting::default());
        assert_eq!(ran, Ran { process: "p".into(), ..Ran::default() });
    }
}

//! As what a program ran: its labels and its cgroup, for those who put recordings of many machines together.

use archive::{Environment, cgroup_in};
use serde_json::Value;

/// The options of a run, with `labels` (of `WHATIF_LABELS`, an object) and `cgroup` of a process besides, and how many CPUs the machine has. What may not be read is left out.
pub fn with(typed: &str, pid: u32, machine_cpus: u32) -> String {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    added(typed, &environment, (&cgroup, machine_cpus))
}

fn added(typed: &str, environment: &[u8], (cgroup, machine_cpus): (&str, u32)) -> String {
    let Ok(Value::Object(mut all)) = serde_json::from_str(typed) else { return typed.to_owned() };
    all.insert("labels".to_owned(), serde_json::json!(Environment::of(environment).labels));
    all.insert("cgroup".to_owned(), cgroup_in(cgroup).into());
    all.insert("machine_cpus".to_owned(), machine_cpus.into());
    Value::Object(all).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ran_stands_beside_what_was_typed() {
        let environment = b"A=1\0WHATIF_LABELS=service=shop,version=1.2\0";
        let all = added(r#"{"seed":7}"#, environment, ("0::/system.slice/shop.service\n", 4));
        let all: Value = serde_json::from_str(&all).unwrap();
        let expected = serde_json::json!({
            "seed": 7, "labels": { "service": "shop", "version": "1.2" }, "cgroup": "/system.slice/shop.service", "machine_cpus": 4
        });
        assert_eq!(all, expected);
        assert_eq!(added("no JSON", b"", ("", 4)), "no JSON");
    }
}

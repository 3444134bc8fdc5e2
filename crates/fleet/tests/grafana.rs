//! The dashboard asks what a server can answer.

use crate::answers::{push, with_machines};
use crate::machines;
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../docs/grafana.json");

/// What Grafana makes of a statement, for the hours that [`machines::write`] has.
fn of_grafana(statement: &str) -> String {
    let [from, to] = [machines::BEGIN.0, machines::BEGIN.0 + 7200];
    let within = |column: &str| format!("({column} >= toDateTime({from}) AND {column} <= toDateTime({to}))");
    let mut filled = statement.replace("$event", "cpu-clock").replace("$service", "%");
    for column in ["minute", "start"] {
        filled = filled.replace(&format!("$__timeFilter({column})"), &within(column));
    }
    filled.replace("$__interval_s", "300")
}

#[test]
fn every_panel_of_the_dashboard_is_answered() {
    let Some((nodes, folder)) = with_machines(2, 4) else { return };
    push(&nodes.urls()[0], folder.path()).unwrap();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let asks = |statement: &Value| {
        let answer = nodes.nodes[0].ask(&of_grafana(statement.as_str().unwrap()));
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let events = dashboard["templating"]["list"].as_array().unwrap().iter();
    let events = events.filter(|of| of["type"] == "query").map(|of| asks(&of["query"])).collect::<String>();
    assert!(events.contains("cpu-clock"), "{events}");
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 3, "{}", panels.len());
    for panel in panels {
        let rows = asks(&panel["targets"][0]["rawSql"]);
        let has = |text: &str| rows.contains(text);
        let expected = match panel["title"].as_str().unwrap() {
            "CPU cores by service" => has("shop.service") && has("cart.service"),
            "CPU cores by version" => has("1.0") && has("1.1"),
            "Functions that cost most" => has("shop::function_0"),
            "Hosts" => (0..3).all(|nth| has(&format!("web-{nth}"))),
            other => panic!("what does {other} show?"),
        };
        assert!(expected, "{}: {rows}", panel["title"]);
    }
}

//! Response: what a server's error comes to, and whether it may be over if one waits.

use crate::error::Error;

/// What has gone wrong before the server said anything. A certificate does not become better by waiting.
pub fn of_network(url: String, detail: &str) -> Error {
    let detail = profile::printable(detail).into_owned();
    if detail.contains("certificate") {
        let advice =
            "name the authority that has signed it: SSL_CERT_FILE=FILE.pem whatif fleet …".to_owned();
        return Error::Refused { url, detail, advice };
    }
    Error::Away { url, detail }
}

/// What a server has said, by the number of its error (dbms/src/Common/ErrorCodes.cpp). A proxy before it gives none.
pub fn of_response(url: String, database: &str, text: &str) -> Error {
    let text = profile::printable(text.lines().next().unwrap_or(text)).into_owned();
    let number = text.split("Code: ").nth(1).and_then(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    let refused = |url, detail, advice: &str| Error::Refused { url, detail, advice: advice.to_owned() };
    let failed = |url, detail, advice: &str| Error::Failed { url, detail, advice: advice.to_owned() };
    match number {
        // A request of that name is running.
        Some(216) => Error::Busy { url },
        // A shard does not answer.
        Some(159 | 209 | 210 | 279) => Error::Away { url, detail: text },
        Some(60 | 81) => Error::Tables {
            database: database.to_owned(),
            found: 0,
            needed: crate::tables::VERSION,
            advice: format!("make them: whatif fleet init --url {url}"),
            url,
        },
        Some(192..=195 | 516) => refused(
            url,
            text,
            "give the user with --user, and the password in a file with --password-file, or in $WHATIF_FLEET_PASSWORD",
        ),
        // A constraint of the table, as docs/fleet.md has one.
        Some(469) => refused(
            url,
            text,
            "this user may only send rows of its own host: give that host's user with --user",
        ),
        Some(164 | 497) => refused(url, text, "this user may only read: give one that may write with --user"),
        Some(291) => refused(
            url,
            text,
            "this user may not use this database: give another one with --user, or allow it (docs/fleet.md, \"Users\")",
        ),
        Some(202) => failed(
            url,
            text,
            "it answers as many questions as it may at once (max_concurrent_queries): try again in a minute",
        ),
        Some(252) => failed(
            url,
            text,
            "it has to put its parts together first: try again in some minutes; if that goes on, see in whatif fleet status how many there are, \
             and whether its disk is fast enough",
        ),
        Some(241) => {
            failed(url, text, "it has too little memory for this at the moment: try again in a minute")
        }
        Some(243) => failed(url, text, "its disk is full: make room there, and try again"),
        Some(242) => {
            failed(url, text, "its tables can only be read at the moment: see its log, and try again")
        }
        _ => failed(
            url,
            text,
            "see the log of the server for more (/var/log/clickhouse-server/), or that of the proxy before it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Error {
        of_response("http://h:1".to_owned(), "whatif", text)
    }

    #[test]
    fn what_only_people_can_change_is_not_waited_for() {
        for (text, expected) in [
            ("Code: 60, e.displayText() = DB::Exception: Table whatif.x doesn't exist.", "whatif fleet init"),
            ("Code: 193, e.displayText() = DB::Exception: Wrong password for user x", "--password-file"),
            ("Code: 164, e.displayText() = DB::Exception: Cannot insert in readonly mode", "--user"),
            (
                "Code: 469. DB::Exception: Constraint `own` for table whatif.samples is violated",
                "host's user",
            ),
            ("Code: 291, e.displayText() = DB::Exception: Access denied to database whatif", "--user"),
        ] {
            let error = of(text);
            assert!(!error.is_temporary() && error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn what_may_pass_is_waited_for() {
        for (text, expected) in [
            ("Code: 216, e.displayText() = DB::Exception: Query with id = x is already running.", "a minute"),
            ("Code: 279, e.displayText() = DB::NetException: All connection tries failed.", "/ping"),
            ("Code: 202, e.displayText() = DB::Exception: Too much simultaneous queries.", "at once"),
            ("Code: 252, e.displayText() = DB::Exception: Too many parts (300).", "fleet status"),
            ("Code: 241, e.displayText() = DB::Exception: Memory limit (total) exceeded", "memory"),
            ("Code: 243, e.displayText() = DB::Exception: Cannot reserve 1.00 MiB", "make room"),
            ("Code: 242, e.displayText() = DB::Exception: Table is in readonly mode", "try again"),
            ("<html>\r\n<head><title>502 Bad Gateway</title></head>", "proxy"),
            ("503 Service Unavailable", "proxy"),
        ] {
            let error = of(text);
            assert!(error.is_temporary() && error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn certificates_are_not_waited_for() {
        let of = |detail: &str| of_network("https://h:1".to_owned(), detail);
        assert!(of("Connection refused (os error 111)").is_temporary());
        let error = of("invalid peer certificate: UnknownIssuer");
        assert!(!error.is_temporary() && error.to_string().contains("SSL_CERT_FILE"), "{error}");
    }
}

//! Server: one ClickHouse, over HTTP, through its client in Rust.

use crate::error::Error;
use crate::response::{of_network, of_response};
use crate::row_binary::RowBinary;
use crate::store::is_name;
use clickhouse::{Client, RowOwned, RowRead};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long each of the first answers may take, which cost a server nothing: one that does not give them gives no other.
const FIRST: Duration = Duration::from_secs(20);

/// How a server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// `http://HOST:8123` or `https://HOST:8443`.
    pub url: String,
    /// Its database.
    pub database: String,
    /// The user; nothing: the server's default one.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// A server that has answered.
pub struct Server {
    client: Client,
    runtime: Runtime,
    url: String,
    database: String,
    /// Settings that it knows, of those that matter, with what they are for this user.
    settings: BTreeMap<String, String>,
    version: String,
}

/// `LowCardinality` takes this where it is new (18.16).
const LOW_CARDINALITY: &str = "allow_experimental_low_cardinality_type";
/// Rows would be answered for before they are written.
const ASYNC_INSERT: &str = "async_insert";
/// What a user may change; 1: nothing, not even settings.
const READONLY: &str = "readonly";
/// What makes an answer an error where it would be that of a part: shards that are away, and limits that a user has.
const WHOLE: [(&str, &str); 12] = [
    ("skip_unavailable_shards", "0"),
    ("distinct_overflow_mode", "throw"),
    ("group_by_overflow_mode", "throw"),
    ("join_overflow_mode", "throw"),
    ("read_overflow_mode", "throw"),
    ("read_overflow_mode_leaf", "throw"),
    ("result_overflow_mode", "throw"),
    ("set_overflow_mode", "throw"),
    ("sort_overflow_mode", "throw"),
    ("timeout_overflow_mode", "throw"),
    ("timeout_overflow_mode_leaf", "throw"),
    ("transfer_overflow_mode", "throw"),
];

/// The settings, of those that a server knows, with which an answer may be that of a part, and what they have to be.
fn not_whole(known: &BTreeMap<String, String>) -> Vec<(&'static str, &'static str)> {
    WHOLE.into_iter().filter(|(name, value)| known.get(*name).is_some_and(|is| is != value)).collect()
}

impl Server {
    /// Asks it what it is.
    pub fn open(login: &Login) -> Result<Server, Error> {
        Server::open_within(FIRST, login)
    }

    fn open_within(first: Duration, login: &Login) -> Result<Server, Error> {
        let Login { url, database, user, password } = login;
        if !is_name(database) {
            return Err(Error::Usage(format!(
                "'{}' is no name of a database; take letters, digits and _",
                profile::printable(database)
            )));
        }
        // Not shown: there is a password in it. The client would leave it out, and take what follows a question mark for settings.
        if url.contains(['@', '?', '#']) {
            return Err(Error::Usage(
                "an address has no user, password or settings in it (no @, ? and #): give the user with --user, and the password in a file with --password-file"
                    .to_owned(),
            ));
        }
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Error::Usage(format!(
                "'{}' is no address of a server; it is like http://localhost:8123 or https://clickhouse.example.org:8443",
                profile::printable(url)
            )));
        }
        let url = url.trim_end_matches('/').to_owned();
        let mut client = Client::default()
            .with_url(&url)
            .with_validation(false)
            .with_product_info("whatif", env!("CARGO_PKG_VERSION"));
        if let Some(user) = user {
            client = client.with_user(user);
        }
        if let Some(password) = password {
            client = client.with_password(password);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Away { url: url.clone(), detail: error.to_string() })?;
        let mut server = Server {
            client,
            runtime,
            url,
            database: database.clone(),
            settings: BTreeMap::new(),
            version: String::new(),
        };
        server.version = server.all_within::<String>(first, "SELECT version()")?.pop().unwrap_or_default();
        let names = WHOLE.map(|(name, _)| name);
        let names: Vec<String> = names
            .iter()
            .chain(&[LOW_CARDINALITY, ASYNC_INSERT, READONLY])
            .map(|name| format!("'{name}'"))
            .collect();
        let known = format!("SELECT name, value FROM system.settings WHERE name IN ({})", names.join(", "));
        server.settings = server.all_within::<(String, String)>(first, &known)?.into_iter().collect();
        match not_whole(&server.settings).first() {
            // Such a user may change no setting.
            Some((name, value)) if server.settings.get(READONLY).is_some_and(|readonly| readonly == "1") => {
                Err(Error::Refused {
                    url: server.url,
                    detail: format!("with {name} as this user has it, an answer may be that of a part"),
                    advice: format!(
                        "set {name} to {value} in the profile of this user, or give another one with --user"
                    ),
                })
            }
            _ => Ok(server),
        }
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database in it.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Its version: `18.16.1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it can remove what is old by itself: since 19.6, and for certain since 20.
    pub fn has_ttl(&self) -> bool {
        self.version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok())
            .is_some_and(|major| major >= 20)
    }

    /// All rows of an answer.
    pub fn all<T: RowOwned + RowRead>(&self, statement: &str) -> Result<Vec<T>, Error> {
        self.all_within(PATIENCE, statement)
    }

    /// All rows of one of the first answers, about which tables there are: at once, or not at all.
    pub fn all_at_first<T: RowOwned + RowRead>(&self, statement: &str) -> Result<Vec<T>, Error> {
        self.all_within(FIRST, statement)
    }

    /// The same, within a time.
    pub fn all_within<T: RowOwned + RowRead>(
        &self,
        patience: Duration,
        statement: &str,
    ) -> Result<Vec<T>, Error> {
        self.wait(patience, self.asked(statement).fetch_all::<T>())
    }

    /// The rows of an answer, one after the other, up to `most` of them.
    pub fn each<T: RowOwned + RowRead>(
        &self,
        statement: &str,
        most: usize,
        mut then: impl FnMut(T),
    ) -> Result<(), Error> {
        let query = self.asked(statement);
        let asked = async {
            let mut rows = query.fetch::<T>()?;
            for _ in 0..most {
                let Some(row) = rows.next().await? else { break };
                then(row);
            }
            Ok(())
        };
        self.wait(PATIENCE, asked)
    }

    /// A question that is answered as a whole or not at all.
    fn asked(&self, statement: &str) -> clickhouse::query::Query {
        let query = self.client.query_raw(statement);
        not_whole(&self.settings)
            .into_iter()
            .fold(query, |query, (name, value)| query.with_setting(name, value))
    }

    /// Does what brings no answer.
    pub fn execute(&self, statement: &str) -> Result<(), Error> {
        let mut query = self.client.query_raw(statement);
        if self.settings.contains_key(LOW_CARDINALITY) {
            query = query.with_setting(LOW_CARDINALITY, "1");
        }
        self.wait(PATIENCE, query.execute())
    }

    /// An answer as text in a format of the server's. The server changes nothing for it.
    pub fn text(&self, statement: &str, format: &str) -> Result<String, Error> {
        let query = self.asked(statement).with_setting(READONLY, "1");
        let asked = async {
            let mut cursor = query.fetch_bytes(format)?;
            let mut text = Vec::new();
            while let Some(chunk) = cursor.next().await? {
                text.extend_from_slice(&chunk);
            }
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        self.wait(PATIENCE, asked)
    }

    /// Puts rows into a table: all or none, as one block, under a name that no other running request may have. When it returns, they are written, on whichever
    /// shard they belong to.
    pub fn insert(&self, table: &str, name: &str, rows: &RowBinary) -> Result<(), Error> {
        if rows.len() == 0 {
            return Ok(());
        }
        let statement = format!("INSERT INTO {}.{table} FORMAT RowBinary", self.database);
        let block = (rows.len() + 1).to_string();
        let mut insert = self
            .client
            .clone()
            .with_header("Content-Encoding", "gzip")
            .insert_formatted_with(statement)
            .with_setting("query_id", name)
            .with_setting("insert_distributed_sync", "1")
            .with_setting("max_insert_block_size", &block)
            .with_setting("min_insert_block_size_rows", &block)
            .with_setting("min_insert_block_size_bytes", "0");
        if self.settings.contains_key(ASYNC_INSERT) {
            insert = insert.with_setting(ASYNC_INSERT, "0");
        }
        let sent = async {
            insert.send(rows.packed().into()).await?;
            insert.end().await
        };
        self.wait(PATIENCE, sent)
    }

    fn wait<T>(
        &self,
        patience: Duration,
        asked: impl Future<Output = Result<T, clickhouse::error::Error>>,
    ) -> Result<T, Error> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(patience, asked).await });
        match answer {
            Ok(answer) => answer.map_err(|error| self.wrong(&error)),
            Err(_) if patience >= PATIENCE => Err(Error::Failed {
                url: self.url.clone(),
                detail: format!("no answer for {} s", patience.as_secs()),
                advice: "see what the server is busy with: whatif fleet sql 'SELECT elapsed, query FROM system.processes'; \
                         of a question ask for less (--since, --service)"
                    .to_owned(),
            }),
            Err(_) => Err(Error::Away {
                url: self.url.clone(),
                detail: format!("nothing for {} s", patience.as_secs_f64()),
            }),
        }
    }

    /// What the client's error comes to.
    fn wrong(&self, error: &clickhouse::error::Error) -> Error {
        let url = self.url.clone();
        match error {
            clickhouse::error::Error::BadResponse(text) => of_response(url, &self.database, text),
            clickhouse::error::Error::Network(_) | clickhouse::error::Error::TimedOut => {
                let mut detail = error.to_string();
                let mut source = std::error::Error::source(error);
                while let Some(deeper) = source {
                    detail = deeper.to_string();
                    source = deeper.source();
                }
                of_network(url, &detail)
            }
            clickhouse::error::Error::InvalidParams(why) => Error::Usage(format!(
                "{url} is no address of a server: {why}; it is like http://localhost:8123"
            )),
            other => Error::Failed {
                url,
                detail: profile::printable(&other.to_string()).into_owned(),
                advice:
                    "see whether another version of ClickHouse is there than docs/fleet.md names, or a proxy"
                        .to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_whole_where_the_server_knows_how() {
        let of = |known: &[(&str, &str)]| {
            let known = known.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            not_whole(&known)
        };
        let good = [("skip_unavailable_shards", "0"), ("read_overflow_mode", "throw"), ("async_insert", "1")];
        assert_eq!(of(&good), []);
        let bad = [("skip_unavailable_shards", "1"), ("timeout_overflow_mode", "break")];
        assert_eq!(of(&bad), [("skip_unavailable_shards", "0"), ("timeout_overflow_mode", "throw")]);
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let login = Login { url: url.clone(), database: "whatif".into(), ..Login::default() };
        let error = Server::open_within(Duration::from_millis(200), &login).err().unwrap();
        let said = error.to_string();
        assert!(error.is_temporary() && said.contains("nothing for 0.2 s"), "{said}");
        assert!(said.ends_with(&format!("curl {url}/ping")), "{said}");
    }

    #[test]
    fn addresses_and_databases_are_looked_at_before_anything_is_sent() {
        for (url, database) in
            [("localhost:8123", "whatif"), ("http://localhost", "a b"), ("http://localhost", "")]
        {
            let login = Login { url: url.into(), database: database.into(), ..Login::default() };
            assert!(matches!(Server::open(&login), Err(Error::Usage(_))), "{url} {database}");
        }
        for url in ["http://me:secret@localhost:8123", "http://localhost:8123/?user=me&password=secret"] {
            let login = Login { url: url.into(), database: "whatif".into(), ..Login::default() };
            let said = Server::open(&login).err().unwrap().to_string();
            assert!(said.contains("--password-file") && !said.contains("secret"), "{said}");
        }
    }
}

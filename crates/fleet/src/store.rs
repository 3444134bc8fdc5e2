//! Store: the tables of a fleet, on one server or on the shards of a cluster.

use crate::error::Error;
use crate::server::{Login, Server};
use crate::tables;
use clickhouse::Row;
use serde::Deserialize;

/// Tables that this program knows.
pub struct Store {
    /// The server that is asked.
    pub server: Server,
    /// What tells these tables from all others.
    pub fleet: String,
    /// The cluster that they are divided over.
    pub cluster: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq, Eq, Row)]
struct Schema {
    version: u32,
    fleet: String,
    cluster: String,
}

impl Store {
    /// Opens tables that are there already.
    pub fn open(login: &Login) -> Result<Store, Error> {
        let server = Server::open(login)?;
        let found = schema(&server)?;
        let version = found.as_ref().map_or(0, |found| found.version);
        match found {
            Some(Schema { version: tables::VERSION, fleet, cluster }) => {
                Ok(Store { server, fleet, cluster: Some(cluster).filter(|name| !name.is_empty()) })
            }
            _ => Err(Error::Tables {
                advice: match version {
                    0 => format!("make them: whatif fleet init --url {}", server.url()),
                    1..tables::VERSION => "make others: whatif fleet init --database NAME".to_owned(),
                    _ => "update whatif on this machine".to_owned(),
                },
                url: server.url().to_owned(),
                database: server.database().to_owned(),
                found: version,
                needed: tables::VERSION,
            }),
        }
    }

    /// Makes the tables where there are none, and lets the servers remove samples that are so many days old. Of a cluster, `logins` are all of its shards.
    pub fn init(logins: &[Login], cluster: Option<&str>, days: Option<u32>) -> Result<Vec<String>, Error> {
        let servers: Vec<Server> = logins.iter().map(Server::open).collect::<Result<_, _>>()?;
        if let Some(cluster) = cluster {
            servers.iter().try_for_each(|server| has_cluster(server, cluster, servers.len()))?;
        }
        if let Some(old) = servers.iter().find(|server| days.is_some() && !server.has_ttl()) {
            return Err(Error::Usage(format!(
                "{} is ClickHouse {}, which removes nothing by itself; leave --keep-days out, and remove days by hand (docs/fleet.md, \"Tables\")",
                old.url(),
                profile::printable(old.version())
            )));
        }
        let mut found: Vec<Option<Schema>> = Vec::new();
        for server in &servers {
            server.execute(&format!("CREATE DATABASE IF NOT EXISTS {}", server.database()))?;
            server.execute(&tables::schema_statement(server.database()))?;
            found.push(schema(server)?);
        }
        let fleet = found.iter().flatten().map(|schema| schema.fleet.clone()).next();
        let fleet = fleet.unwrap_or_else(archive::new_uid);
        let mut said = Vec::new();
        for (server, found) in servers.iter().zip(&found) {
            let url = server.url();
            let version = found.as_ref().map_or(0, |found| found.version);
            if let Some(known) = found.as_ref().filter(|known| known.cluster != cluster.unwrap_or_default()) {
                let was = if known.cluster.is_empty() { "no cluster" } else { &known.cluster };
                return Err(Error::Usage(format!(
                    "{url} has tables already, of {was}; leave them so (--cluster as it was), or take another --database"
                )));
            }
            if version > tables::VERSION {
                return Err(Error::Tables {
                    url: url.to_owned(),
                    database: server.database().to_owned(),
                    found: version,
                    needed: tables::VERSION,
                    advice: "update whatif on this machine".to_owned(),
                });
            }
            if version > 0 && version < tables::VERSION {
                // What it would take to bring these up to date while senders are at work is not worth it: no release has made any.
                return Err(Error::Usage(format!(
                    "{url} has tables of version {version} in {0}, which no release has made; make others with --database NAME (machines send there what they still have), or drop these: DROP DATABASE {0}",
                    server.database()
                )));
            }
            if version == 0 {
                for statement in tables::statements(server.database(), cluster) {
                    server.execute(&statement)?;
                }
                server.execute(&format!(
                    "INSERT INTO {}.{} VALUES ({}, now(), '{fleet}', '{}')",
                    server.database(),
                    tables::SCHEMA,
                    tables::VERSION,
                    cluster.unwrap_or_default()
                ))?;
            }
            for statement in days.iter().flat_map(|days| tables::keep(*days, server.database(), cluster)) {
                server.execute(&statement)?;
            }
            said.push(match version {
                0 => {
                    format!("{url}: made the tables of version {} in {}", tables::VERSION, server.database())
                }
                _ => format!("{url}: the tables are up to date (version {version})"),
            });
        }
        Ok(said)
    }

    /// Whether the tables are still those that were opened, and not others that were made in their place.
    pub fn is_same(&self) -> Result<bool, Error> {
        let cluster = self.cluster.clone().unwrap_or_default();
        let opened = Schema { version: tables::VERSION, fleet: self.fleet.clone(), cluster };
        Ok(schema(&self.server)?.is_some_and(|found| found == opened))
    }

    /// A table with its database.
    pub fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.server.database())
    }

    /// A table of the server's own, on all shards.
    pub fn of_system(&self, table: &str) -> String {
        match &self.cluster {
            None => format!("system.{table}"),
            Some(cluster) => format!("cluster('{cluster}', system, {table})"),
        }
    }
}

/// The version of the tables, if there are some.
fn schema(server: &Server) -> Result<Option<Schema>, Error> {
    let there = format!(
        "SELECT count() FROM system.tables WHERE database = '{}' AND name = '{}'",
        server.database(),
        tables::SCHEMA
    );
    if server.all_at_first::<u64>(&there)?.first().is_none_or(|count| *count == 0) {
        return Ok(None);
    }
    let newest = format!(
        "SELECT version, fleet, cluster FROM {}.{} ORDER BY version DESC LIMIT 1",
        server.database(),
        tables::SCHEMA
    );
    server
        .all_at_first::<Schema>(&newest)?
        .pop()
        .map(|found| found.checked(server.url(), server.database()))
        .transpose()
}

/// Whether a text is a name that may stand in a statement.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Schema {
    /// Refuses texts that no `init` has written: they would stand in statements.
    fn checked(self, url: &str, database: &str) -> Result<Schema, Error> {
        let cluster_is_good = self.cluster.is_empty() || is_name(&self.cluster);
        for (column, text, is_good) in
            [("fleet", &self.fleet, is_name(&self.fleet)), ("cluster", &self.cluster, cluster_is_good)]
        {
            if !is_good {
                return Err(Error::Refused {
                    url: url.to_owned(),
                    detail: format!(
                        "`{column}` in {database}.{} is '{}', which whatif has not written",
                        tables::SCHEMA,
                        profile::printable(text)
                    ),
                    advice: "see who may write there, and write the row again; or make other tables: whatif fleet init --database NAME"
                        .to_owned(),
                });
            }
        }
        Ok(self)
    }
}

/// Whether a server knows a cluster, with that many shards.
fn has_cluster(server: &Server, cluster: &str, shards: usize) -> Result<(), Error> {
    if !is_name(cluster) {
        return Err(Error::Usage(format!(
            "'{}' is no name of a cluster; take letters, digits and _",
            profile::printable(cluster)
        )));
    }
    let known = format!("SELECT uniq(shard_num) FROM system.clusters WHERE cluster = '{cluster}'");
    let known = server.all::<u64>(&known)?.pop().unwrap_or(0);
    if known == shards as u64 {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{} knows {known} shards of the cluster {cluster}, and {shards} addresses were given\n  name all shards in <remote_servers> of \
         its configuration, and give one --url for each",
        server.url()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_statements_has_to_be_a_name() {
        let of = |fleet: &str, cluster: &str| {
            let schema = Schema { version: 1, fleet: fleet.to_owned(), cluster: cluster.to_owned() };
            schema.checked("http://h:1", "whatif")
        };
        assert!(of("0a1b", "").is_ok() && of("0a1b", "all_2").is_ok());
        for (fleet, cluster, shown) in [
            ("", "", "`fleet`"),
            ("x' OR 1 --", "", "`fleet`"),
            ("0a", "a', system, one) --", "`cluster`"),
            ("0a", "a\u{1b}[2J", "a\\u{1b}[2J"),
        ] {
            let error = of(fleet, cluster).unwrap_err();
            let said = error.to_string();
            assert!(
                !error.is_temporary() && said.contains(shown) && said.contains("whatif fleet init"),
                "{said}"
            );
        }
    }
}

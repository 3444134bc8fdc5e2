/*
 * sqlite.c - a load for SQLite: `program FILE THREADS`.
 *
 * Each thread has a connection of its own to one database with a write-ahead log. The first one writes: transactions of
 * eight inserts, an update and a deletion. The others read: by key, by index, and sums over ranges. They never end.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sqlite3.h"

enum { ROWS = 20000 };

static const char *path;

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (uint32_t)(*state >> 33) % below;
}

static void check(sqlite3 *database, int code)
{
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE)
        return;
    fprintf(stderr, "sqlite: %s\n", sqlite3_errmsg(database));
    exit(1);
}

static sqlite3 *connect_to(void)
{
    sqlite3 *database;
    check(NULL, sqlite3_open(path, &database));
    sqlite3_busy_timeout(database, 10000);
    check(database, sqlite3_exec(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF", NULL, NULL, NULL));
    return database;
}

static sqlite3_stmt *prepare(sqlite3 *database, const char *text)
{
    sqlite3_stmt *statement;
    check(database, sqlite3_prepare_v2(database, text, -1, &statement, NULL));
    return statement;
}

/* Runs a statement with two numbers, to its end. */
static void run(sqlite3 *database, sqlite3_stmt *statement, uint32_t a, uint32_t b)
{
    check(database, sqlite3_bind_int(statement, 1, (int)a));
    if (sqlite3_bind_parameter_count(statement) > 1)
        check(database, sqlite3_bind_int(statement, 2, (int)b));
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
    }
    check(database, code);
    check(database, sqlite3_reset(statement));
}

static void fill(sqlite3 *database)
{
    check(database, sqlite3_exec(database,
                                 "CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, text TEXT);"
                                 "CREATE INDEX by_kind ON item (kind); BEGIN",
                                 NULL, NULL, NULL));
    sqlite3_stmt *insert = prepare(database, "INSERT INTO item VALUES (?1, ?2, printf('item %d of %d', ?1, ?2))");
    uint64_t state = 7;
    for (uint32_t row = 0; row < ROWS; row++)
        run(database, insert, row, draw(&state, 500));
    check(database, sqlite3_exec(database, "COMMIT", NULL, NULL, NULL));
    sqlite3_finalize(insert);
}

static void write_for_ever(sqlite3 *database)
{
    sqlite3_stmt *insert = prepare(database, "INSERT OR REPLACE INTO item VALUES (?1, ?2, printf('item %d of %d', ?1, ?2))");
    sqlite3_stmt *update = prepare(database, "UPDATE item SET text = upper(text) || ?2 WHERE id = ?1");
    sqlite3_stmt *remove = prepare(database, "DELETE FROM item WHERE id = ?1");
    uint64_t state = 99;
    for (;;) {
        check(database, sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL));
        for (int i = 0; i < 8; i++)
            run(database, insert, draw(&state, ROWS), draw(&state, 500));
        run(database, update, draw(&state, ROWS), 1);
        run(database, remove, draw(&state, ROWS), 0);
        check(database, sqlite3_exec(database, "COMMIT", NULL, NULL, NULL));
    }
}

static void *read_for_ever(void *number)
{
    sqlite3 *database = connect_to();
    sqlite3_stmt *by_key = prepare(database, "SELECT text FROM item WHERE id = ?1");
    sqlite3_stmt *by_index = prepare(database, "SELECT count(*), max(text) FROM item WHERE kind = ?1");
    sqlite3_stmt *sum = prepare(database, "SELECT kind, sum(length(text)) FROM item WHERE id BETWEEN ?1 AND ?1 + ?2 "
                                          "GROUP BY kind ORDER BY 2 DESC LIMIT 3");
    uint64_t state = 1234567 + (uintptr_t)number;
    for (;;) {
        for (int i = 0; i < 8; i++)
            run(database, by_key, draw(&state, ROWS), 0);
        run(database, by_index, draw(&state, 500), 0);
        run(database, sum, draw(&state, ROWS), 100);
    }
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: %s FILE THREADS\n", arguments[0]);
        return 2;
    }
    path = arguments[1];
    unlink(path);
    sqlite3 *database = connect_to();
    fill(database);
    for (int number = 1; number < atoi(arguments[2]); number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, read_for_ever, (void *)(uintptr_t)number) != 0)
            return 1;
    }
    write_for_ever(database);
}

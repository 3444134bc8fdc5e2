cd "$SOURCE"/libsqlite3-sys
compile "-I. -DSQLITE_OMIT_LOAD_EXTENSION" sqlite3.c "$HERE/sqlite.c"
link ""

cd "$SOURCE"/lua5.4/src
compile "-DLUA_USE_POSIX" $(sources . luac.c)
link ""

cd "$SOURCE"/zlib
compile "-DHAVE_UNISTD_H -DZ_HAVE_UNISTD_H -I." $(sources .) "$HERE/zlib.c"
link ""

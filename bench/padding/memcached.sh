cd "$SOURCE"/libevent
libevent=$PWD
./configure CC="$CC" CFLAGS="$FLAGS" --disable-shared --disable-openssl --disable-samples --disable-libevent-regress \
    --disable-dependency-tracking
make include/event2/event-config.h
make -j"$JOBS" libevent.la
cd "$SOURCE"/memcached
./configure CC="$CC" CFLAGS="$FLAGS" CPPFLAGS="-I$libevent/include" LDFLAGS="-L$libevent/.libs" LIBS="$PAD" \
    --disable-extstore --disable-docs --disable-dependency-tracking
make -j"$JOBS" memcached CFLAGS="$FLAGS -pthread"
finish memcached

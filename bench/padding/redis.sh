cd "$SOURCE"/redis
make -j"$JOBS" -C src CC="$CC" MALLOC=libc OPTIMIZATION=-O2 CFLAGS="$FLAGS" LDFLAGS="$PAD" DEBUG= redis-server
finish src/redis-server

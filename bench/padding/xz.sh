cd "$SOURCE"/xz-utils
./configure CC="$CC" CFLAGS="$FLAGS" LIBS="$PAD" --disable-shared --disable-nls --disable-doc --disable-scripts \
    --disable-lzmadec --disable-lzmainfo --disable-xzdec --disable-ifunc --disable-dependency-tracking
make -j"$JOBS" -C src/liblzma
make -j"$JOBS" -C src/xz
finish src/xz/xz

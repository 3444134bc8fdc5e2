cd "$SOURCE"/nginx
sh ./configure --with-cc="$CC" --with-cc-opt="$FLAGS" --with-ld-opt="$PAD" --without-http_rewrite_module --without-http_gzip_module \
    --prefix="$OUT" --error-log-path=/dev/null
make -j"$JOBS" -f objs/Makefile binary
finish objs/nginx

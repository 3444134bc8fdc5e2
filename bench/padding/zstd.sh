cd "$SOURCE"/libzstd
compile "-Ilib -Ilib/common -DZSTD_MULTITHREAD -DZSTD_DISABLE_ASM -DZSTD_LEGACY_SUPPORT=0 -DXXH_NAMESPACE=ZSTD_" \
    $(sources lib/common) $(sources lib/compress) $(sources lib/decompress) $(sources lib/dictBuilder) $(sources programs)
link ""

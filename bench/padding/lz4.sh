cd "$SOURCE"/lz4
compile "-Ilib -DXXH_NAMESPACE=LZ4_" $(sources lib) $(sources programs)
link ""

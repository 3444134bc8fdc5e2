cd "$SOURCE"/leveldb
mkdir -p include/port
sed -e 's/#cmakedefine01 HAVE_FDATASYNC/#define HAVE_FDATASYNC 1/' -e 's/#cmakedefine01 HAVE_O_CLOEXEC/#define HAVE_O_CLOEXEC 1/' \
    -e 's/#cmakedefine01 \(.*\)/#define \1 0/' port/port_config.h.in >include/port/port_config.h
# The benchmark includes frameworks for tests, and uses nothing of them.
sed -i -e "/gtest\\|gmock/d" -e "/^MATCHER(/d" -e "/^inline int RandomSeed/,/^}/d" benchmarks/db_bench.cc util/testutil.h
# GCC before 13 puts the list of entries of functions that several objects have outside of their groups, and they cannot be linked: so each
# object has its own (-fno-weak).
compile "-std=c++11 -I. -Iinclude -DLEVELDB_PLATFORM_POSIX=1 -fno-exceptions -fno-rtti -fno-weak" \
    $(sources db '*_test.c*' leveldbutil.cc) $(sources table '*_test.cc') $(sources util '*_test.cc' env_windows.cc) \
    benchmarks/db_bench.cc
link ""

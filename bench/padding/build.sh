# What the scripts of the programs have in common. The benchmark sets: SOURCE (a folder with the unpacked sources of each package), OUT (where
# the program goes), PAD (pad.o), HERE (this folder), FLAGS (optimisation, and the patchable entries), JOBS, CC and CXX.
set -eu
mkdir -p "$OUT/objects"
export CC CXX FLAGS OUT

# compile FLAGS FILE...: each file to an object.
compile() {
    MORE=$1
    shift
    export MORE
    printf '%s\n' "$@" | xargs -P "$JOBS" -I '{}' sh -c '
        case "$1" in *.c) compiler=$CC ;; *) compiler=$CXX ;; esac
        $compiler $FLAGS $MORE -c "$1" -o "$OUT/objects/of-$(echo "$1" | tr / _).o"' sh '{}'
}

# link LIBRARIES: all objects, and the pad.
link() {
    # shellcheck disable=SC2086
    $CXX $FLAGS -o "$OUT/program.new" "$OUT"/objects/*.o "$PAD" $1 -lpthread -ldl -lm
    finish "$OUT/program.new"
}

# finish FILE: what was built is the program.
finish() {
    cp "$1" "$OUT/program.copy"
    mv "$OUT/program.copy" "$OUT/program"
}

# all except FOLDER/*.c whose names match one of the words.
sources() {
    folder=$1
    shift
    for file in "$folder"/*.c "$folder"/*.cc; do
        [ -e "$file" ] || continue
        for word in "$@"; do
            case "$(basename "$file")" in $word) continue 2 ;; esac
        done
        echo "$file"
    done
}

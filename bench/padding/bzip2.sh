cd "$SOURCE"/bzip2
compile "-D_FILE_OFFSET_BITS=64" $(sources . bzip2recover.c dlltest.c mk251.c spewG.c unzcrash.c)
link ""

/* A library that another user has put where the runtime is looked for: it says so when it is loaded. */
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
    (void)!write(1, "planted\n", 8);
}

/* A forked child loads the library that is its first argument, and works in it. */
#include "common.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    const pid_t child = fork();
    if (child == 0) {
        void *plugin = dlopen(argv[1], RTLD_NOW);
        CHECK(plugin);
        void (*serve)(void) = (void (*)(void))(uintptr_t)dlsym(plugin, "serve");
        CHECK(serve);
        for (const clock_t begin = clock(); clock() - begin < 2 * CLOCKS_PER_SEC;) {
            serve();
            WHATIF_PROGRESS_NAMED("served");
        }
        _exit(failures != 0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return done();
}

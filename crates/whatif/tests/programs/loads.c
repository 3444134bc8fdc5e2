/* A forked child loads the library that is its first argument, and works in it until the test has seen enough. */
#include "common.h"
#include "enough.h"
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
        while (!is_enough()) {
            serve();
            WHATIF_PROGRESS_NAMED("served");
        }
        _exit(failures != 0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return done();
}

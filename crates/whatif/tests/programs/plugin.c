/* A library that is loaded long after the start, unloaded, and loaded again elsewhere; and with -DHOST, who loads it. */
#include "common.h"

#ifndef HOST
__attribute__((noinline, visibility("default"))) void serve(void)
{
    hot();
    __asm__ volatile("nop" ::: "memory");
}
#else
#include <dlfcn.h>
#include <sys/mman.h>

__attribute__((noinline)) void call(void (*serve)(void))
{
    serve();
    __asm__ volatile("nop" ::: "memory");
}

static uintptr_t round_with(const char *library)
{
    void *plugin = dlopen(library, RTLD_NOW);
    CHECK(plugin);
    void (*serve)(void) = (void (*)(void))(uintptr_t)dlsym(plugin, "serve");
    CHECK(serve);
    usleep(700000); /* until the profiler has seen it */
    for (const double end = now() + 1.2; now() < end;) {
        call(serve);
        WHATIF_PROGRESS_NAMED("marked");
    }
    CHECK(dlclose(plugin) == 0);
    return (uintptr_t)serve;
}

int main(int argc, char **argv)
{
    const uintptr_t page = 4096, first = round_with(argv[1]) & -page;
    /* Something else is where it was. */
    CHECK(mmap((void *)first, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)first);
    CHECK((round_with(argv[1]) & -page) != first);
    return argc == 2 ? done() : 1;
}
#endif

/* A library that is loaded long after the start, unloaded, and loaded again elsewhere; and with -DHOST, the program that loads it. It calls a function of the library until
   a line comes on standard input, and another function the second time. */
#include "common.h"

#ifndef HOST
__attribute__((noinline, visibility("default"))) void serve(void)
{
    STEPS(130000);
}

__attribute__((noinline, visibility("default"))) void serve_again(void)
{
    STEPS(130000);
}
#else
#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>

__attribute__((noinline)) void call(void (*serve)(void))
{
    serve();
    __asm__ volatile("nop" ::: "memory");
}

static int is_told_to_go_on(void)
{
    struct pollfd input = {0, POLLIN, 0};
    char byte;
    return poll(&input, 1, 0) > 0 && read(0, &byte, 1) >= 0;
}

static uintptr_t round_with(const char *library, const char *function)
{
    void *plugin = dlopen(library, RTLD_NOW);
    CHECK(plugin);
    void (*serve)(void) = (void (*)(void))(uintptr_t)dlsym(plugin, function);
    CHECK(serve);
    while (!is_told_to_go_on()) {
        call(serve);
        WHATIF_PROGRESS_NAMED("marked");
    }
    CHECK(dlclose(plugin) == 0);
    return (uintptr_t)serve;
}

int main(int argc, char **argv)
{
    const uintptr_t page = 4096, first = round_with(argv[1], "serve") & -page;
    /* Something else is where it was. */
    CHECK(mmap((void *)first, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (void *)first);
    CHECK((round_with(argv[1], "serve_again") & -page) != first);
    return argc == 2 ? done() : 1;
}
#endif

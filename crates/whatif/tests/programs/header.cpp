// whatif.h in C++, without dlfcn.h or common.h. Prints how many requests there were.
#include "whatif.h"

#include <cstdint>
#include <cstdio>

static volatile std::uint64_t sink;

__attribute__((noinline)) static void hot()
{
    std::uint64_t x = 88172645463325252u;
    for (long i = 130000; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

int main()
{
    const int requests = 800;
    for (int n = 0; n < requests; n++) {
        WHATIF_BEGIN("request");
        hot();
        WHATIF_END("request");
        if (sink)
            WHATIF_PROGRESS;
        else
            WHATIF_PROGRESS_NAMED("never");
    }
    std::printf("%d\ndone\n", requests);
}

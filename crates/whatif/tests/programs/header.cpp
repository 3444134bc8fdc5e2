// whatif.h in C++, without dlfcn.h or common.h.
#include "whatif.h"

#include <chrono>
#include <cstdint>

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
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
    while (std::chrono::steady_clock::now() < end) {
        WHATIF_BEGIN("request");
        hot();
        WHATIF_END("request");
        if (sink)
            WHATIF_PROGRESS;
        else
            WHATIF_PROGRESS_NAMED("never");
    }
}

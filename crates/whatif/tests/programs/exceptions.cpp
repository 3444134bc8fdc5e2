// Exceptions and destructors in threads, through frames of ours.
#include "common.h"

#include <stdexcept>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static int destroyed;

struct Counted {
    int value;
    Counted() : value(1) {}
    ~Counted()
    {
        hot();
        __atomic_fetch_add(&destroyed, value, __ATOMIC_RELAXED);
    }
};

static thread_local Counted counted;

__attribute__((noinline)) static void deep(int depth)
{
    const Counted local;
    if (depth == 0) {
        other();
        throw std::runtime_error("thrown");
    }
    deep(depth - 1);
}

static std::mutex mutex;

int main()
{
    start_background();
    const double end = now() + 1.0;
    int expected = 0;
    while (now() < end || expected == 0) {
        std::string caught;
        std::thread thread([&] {
            counted.value = 1;
            try {
                const std::lock_guard<std::mutex> guard(mutex);
                deep(5);
            } catch (const std::exception &error) {
                caught = error.what();
            }
        });
        thread.join();
        expected += 7; // six on the stack, one of the thread
        CHECK(caught == "thrown" && mutex.try_lock());
        mutex.unlock();
        CHECK(destroyed == expected);

        std::future<int> future = std::async(std::launch::async, []() -> int {
            counted.value = 1;
            deep(2);
            return 1;
        });
        try {
            future.get();
            CHECK(!"reached");
        } catch (const std::runtime_error &) {
        }
        expected += 4;
        // The thread of a future may end after its result is there.
        future = std::future<int>();
        for (int i = 0; i < 100000 && __atomic_load_n(&destroyed, __ATOMIC_RELAXED) != expected; i++)
            usleep(100);
        CHECK(destroyed == expected);
    }
    stop_background();
    return done();
}

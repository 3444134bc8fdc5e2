/*
 * wait_for - C++: two threads meet after A (6 ms) and B (4 ms), with condition_variable::wait_for.
 *
 * Answer: as barrier.c. What differs is the call that blocks: wait_for becomes
 * pthread_cond_clockwait.
 *
 *   c++ -std=c++11 -O2 -g -fno-omit-frame-pointer -pthread -I../../include wait_for.cpp -o wait_for
 */
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "target.h"

static long a, b;

static std::mutex mutex;
static std::condition_variable met;
static int arrived;
static long meetings;

REGION static void A() { WORK(a); }

REGION static void B() { WORK(b); }

static void meet()
{
    std::unique_lock<std::mutex> lock(mutex);
    const long meeting = meetings;
    if (++arrived == 2) {
        arrived = 0;
        meetings++;
        met.notify_all();
        return;
    }
    while (!met.wait_for(lock, std::chrono::seconds(10), [&] { return meetings != meeting; })) {
    }
}

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 6);
    b = iterations("B", 4);
    start("round");
    std::thread([] {
        for (;;) {
            B();
            meet();
        }
    }).detach();
    while (!over()) {
        A();
        meet();
        WHATIF_PROGRESS_NAMED("round");
        visited();
    }
    finish();
}

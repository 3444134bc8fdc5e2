/*
 * atomic_wait - C++20: two threads meet after A (6 ms) and B (4 ms), with std::atomic's wait and
 * notify_all.
 *
 * Answer: as barrier.c. The library spins a little, then waits in the futex through syscall().
 *
 *   c++ -std=c++20 -O2 -g -fno-omit-frame-pointer -pthread -I../../include atomic_wait.cpp -o atomic_wait
 */
#include <atomic>
#include <thread>

#include "target.h"

static long a, b;

static std::atomic<int> arrived, meetings;

REGION static void A() { WORK(a); }

REGION static void B() { WORK(b); }

static void meet()
{
    const int meeting = meetings;
    if (++arrived == 2) {
        arrived = 0;
        meetings = meeting + 1;
        meetings.notify_all();
        return;
    }
    meetings.wait(meeting);
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

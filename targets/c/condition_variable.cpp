/*
 * condition_variable - C++: the three stages of pipeline.c, A (1 ms), B (4 ms) and C (1 ms), with
 * queues of std::mutex and std::condition_variable.
 *
 * Answer: as there. B is the bottleneck; A and C are worth nothing.
 *
 *   c++ -std=c++11 -O2 -g -fno-omit-frame-pointer -pthread -I../../include condition_variable.cpp -o condition_variable
 */
#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>

#include "target.h"

static long a, b, c;

REGION static void A() { WORK(a); }

REGION static void B() { WORK(b); }

REGION static void C() { WORK(c); }

class Queue {
public:
    void push(long item)
    {
        std::unique_lock<std::mutex> lock(mutex);
        not_full.wait(lock, [&] { return items.size() < 4; });
        items.push(item);
        not_empty.notify_one();
    }

    long pop()
    {
        std::unique_lock<std::mutex> lock(mutex);
        not_empty.wait(lock, [&] { return !items.empty(); });
        const long item = items.front();
        items.pop();
        not_full.notify_one();
        return item;
    }

private:
    std::mutex mutex;
    std::condition_variable not_full, not_empty;
    std::queue<long> items;
};

static Queue to_b, to_c;

int main(int argc, char **argv)
{
    arguments(argc, argv);
    a = iterations("A", 1);
    b = iterations("B", 4);
    c = iterations("C", 1);
    start("item");
    std::thread([] {
        for (long item = 0;; item++) {
            A();
            to_b.push(item);
        }
    }).detach();
    std::thread([] {
        for (;;) {
            const long item = to_b.pop();
            B();
            to_c.push(item);
        }
    }).detach();
    while (!over()) {
        to_c.pop();
        C();
        WHATIF_PROGRESS_NAMED("item");
        visited();
    }
    finish();
}

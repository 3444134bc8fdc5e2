/*
 * counting_semaphore - C++20: the three stages of pipeline.c, A (1 ms), B (4 ms) and C (1 ms), with
 * std::counting_semaphore.
 *
 * Answer: as there. The semaphore is an atomic and a futex, and no sem_ function is ever called.
 *
 *   c++ -std=c++20 -O2 -g -fno-omit-frame-pointer -pthread -I../../include counting_semaphore.cpp -o counting_semaphore
 */
#include <semaphore>
#include <thread>

#include "target.h"

static long a, b, c;

REGION static void A() { WORK(a); }

REGION static void B() { WORK(b); }

REGION static void C() { WORK(c); }

class Queue {
public:
    void push()
    {
        places.acquire();
        items.release();
    }

    void pop()
    {
        items.acquire();
        places.release();
    }

private:
    std::counting_semaphore<4> places{4}, items{0};
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
        for (;;) {
            A();
            to_b.push();
        }
    }).detach();
    std::thread([] {
        for (;;) {
            to_b.pop();
            B();
            to_c.push();
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

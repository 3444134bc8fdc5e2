/*
 * spin.h - how a loop that waits for another CPU passes the time; the argument is
 *
 *   wait=0      not at all
 *   wait=1      with the CPU's hint that this is such a loop (x86: pause)
 *   wait=2      with sched_yield
 */
#ifndef SPIN_H
#define SPIN_H

#include <sched.h>

enum waiting { NOT_AT_ALL, WITH_HINT, WITH_YIELD };

static inline void relax(enum waiting waiting)
{
    if (waiting == WITH_YIELD)
        sched_yield();
    else if (waiting == WITH_HINT)
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#else
        __asm__ volatile("");
#endif
}

#endif

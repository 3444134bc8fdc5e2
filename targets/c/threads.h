/* threads.h - starting a thread that runs until the program ends. */
#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>

static inline pthread_t spawn(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) {
        perror("pthread_create");
        exit(1);
    }
    return thread;
}

#endif

/* queue.h - a bounded queue of items that carry nothing, with a mutex and two condition variables. */
#ifndef QUEUE_H
#define QUEUE_H

#include <pthread.h>

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_full, not_empty;
    int length, capacity;
};

#define QUEUE(capacity)                                                                            \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, capacity \
    }

static inline void push(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->length == queue->capacity)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    queue->length++;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static inline void pop(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->length == 0)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    queue->length--;
    pthread_cond_signal(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
}

#endif

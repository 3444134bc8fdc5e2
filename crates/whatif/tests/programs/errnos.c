/* errno through interposed calls, while delays and samples go on. */
#include "common.h"
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

int main(void)
{
    sem_t semaphore;
    char byte;
    uint32_t word = 1;
    const double end = now() + 1.2;
    sem_init(&semaphore, 0, 0);
    start_background();
    while (now() < end && failures < 10) {
        errno = 77;
        other();
        CHECK(errno == 77);
        CHECK(pthread_mutex_lock(&mutex) == 0 && errno == 77);
        CHECK(pthread_mutex_trylock(&mutex) == EBUSY && errno == 77);
        CHECK(pthread_cond_signal(&condition) == 0 && errno == 77);
        CHECK(pthread_cond_broadcast(&condition) == 0 && errno == 77);
        struct timespec soon = in_ms(CLOCK_REALTIME, 1);
        CHECK(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT && errno == 77);
        CHECK(pthread_mutex_unlock(&mutex) == 0 && errno == 77);
        CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0 && errno == 77);
        CHECK(sem_post(&semaphore) == 0 && sem_wait(&semaphore) == 0 && errno == 77);
        CHECK(kill(getpid(), 0) == 0 && errno == 77);
        CHECK(pthread_kill(pthread_self(), 0) == 0 && errno == 77);
        CHECK(write(STDERR_FILENO, "", 0) == 0 && errno == 77);
        CHECK(usleep(100) == 0 && errno == 77);
        CHECK(poll(NULL, 0, 0) == 0 && errno == 77);
        CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0 && errno == 77);

        errno = 0;
        CHECK(sem_trywait(&semaphore) == -1 && errno == EAGAIN);
        soon = in_ms(CLOCK_REALTIME, 1);
        errno = 0;
        CHECK(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT);
        errno = 0;
        CHECK(read(-1, &byte, 1) == -1 && errno == EBADF);
        errno = 0;
        CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        errno = 0;
        CHECK(kill(getpid(), 1000) == -1 && errno == EINVAL);
        errno = 0;
        CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0) == -1 && errno == EAGAIN);
        struct timespec moment = {0, 1000000};
        errno = 0;
        CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &moment, NULL, 0) == -1 && errno == ETIMEDOUT);
    }
    stop_background();
    return done();
}
